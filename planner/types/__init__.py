"""Columns, types, type inference, and try expressions that never raise an error."""
