"""Runs lookups on Spark: sends keys, receives rows, and defines the views that a statement reads."""
