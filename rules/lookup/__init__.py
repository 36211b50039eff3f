"""Keys of lookups, as a condition says them, and the lookups that a hint names."""
