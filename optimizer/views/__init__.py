"""Materialized views: what a query has to fulfill, what a view stores, and what a refresh does."""
