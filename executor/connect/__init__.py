"""DataFrames of Spark Connect, written as SQL from the messages of their plans."""
