"""Tables of random rows whose columns have the types of a test, as a SELECT."""

from __future__ import annotations

from collections.abc import Sequence


def typed_table(names: tuple[str, ...], types: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of values as texts, NULL among them; all columns are nullable, as those of files are."""
    quoted = [", ".join("NULL" if value == "NULL" else f"'{value}'" for value in row) for row in rows]
    values = ", ".join(f"({row})" for row in quoted) or f"({', '.join('NULL' for _ in names)})"
    columns = ", ".join(f"CAST({n} AS {type_}) AS {n}" for n, type_ in zip(names, types, strict=True))
    return f"SELECT {columns} FROM VALUES {values} AS d({', '.join(names)}){'' if rows else ' WHERE false'}"
