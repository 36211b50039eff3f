"""Catalog files in TOML: their keys with types and checks, and errors with their line."""
