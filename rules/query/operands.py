"""Builds the conditions and expressions of rewritings, with parentheses where an operand needs them."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.expr import Scalar
from dovetail.planner.sql.to_sql import has_or


def conjoined(conditions: list[Scalar]) -> str:
    """Conditions joined with AND, as one operand."""
    if len(conditions) == 1:
        return conditions[0].text
    return " AND ".join(f"({c.text})" if has_or(c.text) else c.text for c in conditions) or "true"


def as_operand(text: str) -> str:
    """An expression that can be an operand."""
    return text if isinstance(Scalar(text).tree, exp.Column | exp.Dot | exp.Literal | exp.Paren) else f"({text})"
