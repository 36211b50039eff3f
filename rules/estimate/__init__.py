"""Which statements can be estimated from a sample, and the statement that reads one."""
