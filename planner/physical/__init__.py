"""Physical operators: data only, no pyspark; one file per family."""
