"""Rules of the recognize batch: they find patterns that have a better plan; one rule a file."""
