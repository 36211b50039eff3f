"""Rules of the recognize batch, a file each."""
