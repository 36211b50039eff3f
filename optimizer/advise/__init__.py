"""Advice on joins that Spark runs badly, from evidence outside a session."""
