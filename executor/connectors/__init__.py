"""Sources of lookup joins: external tables, and how their rows are fetched by key.  Nothing here imports Spark."""
