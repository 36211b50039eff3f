"""The state of joins of streams on Spark: files, segments, epochs, sinks."""
