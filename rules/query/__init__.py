"""The structure of a SELECT: its clauses, its FROM items, its aggregates, and the scope of its names."""
