"""Golden plans: SQL and claims written by hand, and the plan that was approved, in one ``.plan`` file."""
