"""Several queries over one source, and the one scan that answers them."""
