"""Rules of the normalize batch: they bring equivalent SQL into one form; one rule a file."""
