"""Estimates of aggregates from a sample of clusters: sums of products, intervals, and when to look."""
