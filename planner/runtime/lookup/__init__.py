"""Lookups as they run on Spark: keys out, rows back, the views that a statement reads."""
