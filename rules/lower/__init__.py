"""Rules of the lower batch, a file each."""
