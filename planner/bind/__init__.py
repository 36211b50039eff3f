"""Binds names: the relations of FROM with their columns, and the column that each name in an expression means."""
