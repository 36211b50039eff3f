"""Columns and their types; the type of an expression; forms of it that never raise an error."""
