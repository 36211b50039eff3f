"""DataFrames of Spark Connect: the messages of their plans are read."""
