"""Plans statements on a Spark session: declarations, cached plans, and Spark's analysis of both statements."""
