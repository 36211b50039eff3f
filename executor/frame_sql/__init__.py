"""SQL of both kinds of DataFrames: the shape of their plans, query blocks, calls, literals."""
