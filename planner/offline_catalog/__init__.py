"""A catalog of the tables that a TOML file declares: statements are planned against it without Spark."""
