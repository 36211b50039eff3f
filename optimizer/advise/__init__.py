"""Advice over a workload of SQL: which joins Spark plans badly, which of them are rewritten, and how to mend others."""
