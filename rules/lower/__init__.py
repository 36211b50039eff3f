"""Rules of the lower batch: they choose physical operators; one rule a file."""
