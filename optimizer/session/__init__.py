"""Plans statements on a Spark session: declarations, cached plans, and what Spark says about both statements."""
