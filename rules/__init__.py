"""How a plan may change.  Read ``rules/rule.py`` first, then ``rules/batches.py``."""
