"""One expression as a value, in the user's own words: its tokens, its tree, and how a tree is said again."""

from planner.expr.scalar import (
    HOLE,
    ColumnRef,
    Scalar,
    Whole,
    canonical,
    column_ref,
    columns_in,
    is_reference,
    parse,
    quote,
    show_all,
    sql,
    uncommented,
)

__all__ = [
    "HOLE",
    "ColumnRef",
    "Scalar",
    "Whole",
    "canonical",
    "column_ref",
    "columns_in",
    "is_reference",
    "parse",
    "quote",
    "show_all",
    "sql",
    "uncommented",
]
