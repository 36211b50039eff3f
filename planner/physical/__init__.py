"""What Spark will be asked to do: data only, no pyspark; a file per family."""
