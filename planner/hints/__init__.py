"""Parses hint blocks and hints."""
