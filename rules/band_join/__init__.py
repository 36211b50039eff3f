"""What lowering a band join decides: keys, bins, the method of the join, one band of several."""
