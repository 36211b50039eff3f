"""TPC-H and TPC-DS: data and queries that nobody here wrote."""
