"""What a session knows of its tables: columns, statistics, measurements, views, keys, and whether they repeat."""
