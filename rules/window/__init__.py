"""Subqueries over the block's own rows, and the block with windows in their place."""
