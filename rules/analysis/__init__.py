"""Facts about relations: same source, unique keys, equal columns, numbered rows, unsafe speculation."""
