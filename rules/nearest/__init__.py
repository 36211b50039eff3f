"""Joins of which a query needs only the nearest pair of each left row: the conditions, and the idioms for them."""
