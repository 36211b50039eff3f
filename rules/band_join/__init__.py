"""Decisions of lowering a band join: equi-keys, bins, the join method, and the band that gets the bins."""
