"""Prints plans as text and JSON."""
