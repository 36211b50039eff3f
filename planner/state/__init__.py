"""What a join of streams keeps: which rows of each input, for how long, and what is done with them in an epoch."""
