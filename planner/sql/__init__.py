"""Parses SQL to logical plans, prints physical plans as SQL, and resolves names."""
