"""Rules: how the optimizer changes a plan.  Read ``rules/rule.py`` first, then ``rules/batches.py``."""
