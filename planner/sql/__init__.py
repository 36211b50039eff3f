"""Parses SQL to logical plans, and prints physical plans as SQL."""
