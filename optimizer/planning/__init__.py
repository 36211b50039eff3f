"""Plans SQL text against any catalog, without Spark: the driver of the rules, the checks of a rewriting, the plan."""
