"""Plans, and how Spark runs them.  The lowest layer: imports neither ``rules`` nor ``optimizer``."""
