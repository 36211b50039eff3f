"""Subqueries that aggregate rows of their outer query, rewritten as windows."""
