"""Facts about relations: same source, unique keys, equal columns, numbered rows, what may raise an error."""
