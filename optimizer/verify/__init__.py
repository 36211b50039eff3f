"""Verification: both ways are run, and their rows are compared."""
