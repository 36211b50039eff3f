"""Expressions: the user's SQL with its tokens, its tree, and the printing of trees."""

from dovetail.planner.expr.scalar import (
    HOLE,
    ColumnRef,
    Scalar,
    Whole,
    canonical,
    column_ref,
    columns_in,
    has_star,
    is_reference,
    is_star,
    parse,
    quote,
    show_all,
    sql,
    without_parentheses,
)

__all__ = [
    "HOLE",
    "ColumnRef",
    "Scalar",
    "Whole",
    "canonical",
    "column_ref",
    "columns_in",
    "has_star",
    "is_reference",
    "is_star",
    "parse",
    "quote",
    "show_all",
    "sql",
    "without_parentheses",
]
