"""A query over streams, read as a join that keeps state."""
