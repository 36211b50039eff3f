"""What runs: sessions, catalogs and measurements, lookups, states of streams.  The only place that imports pyspark."""
