"""Lookup joins: the keys in their condition, and the lookups that a hint names."""
