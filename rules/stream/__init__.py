"""Joins of streams that keep state: from a query to the statements of each epoch."""
