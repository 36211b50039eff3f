"""Rules of the normalize batch, a file each."""
