"""Advice from Spark's event logs: the joins that took the most task time, and whether Dovetail would take them."""
