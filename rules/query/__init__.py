"""The shape of a SELECT: its clauses, its FROM items, its aggregates, and what a name means where."""
