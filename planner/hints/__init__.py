"""Hint blocks, and what the hints in them say."""
