"""Merges several queries over one source into one scan."""
