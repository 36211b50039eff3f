"""The values of literals, and of arithmetic over them."""

from __future__ import annotations

import re
from datetime import datetime
from fractions import Fraction

from sqlglot import exp

from dovetail.planner.expr import sql
from dovetail.planner.types.schema import sql_type

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2})?")
_SMALLEST = Fraction(1, 10**37)  # what is closer to zero may be zero as FLOAT


def literal_number(tree: exp.Expression) -> Fraction | None:
    """The value of a number literal of any type, with a sign, in parentheses, or of a sum of small whole ones."""
    match tree:
        case exp.Paren():
            return literal_number(tree.this)
        case exp.Neg():
            value = literal_number(tree.this)
            return None if value is None else -value
        case exp.Literal() if not tree.is_string:
            value = Fraction(tree.name)
        case exp.Cast() if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
            value, type_ = Fraction(tree.this.name), sql_type(sql(tree.to))
            if value.denominator != 1 and type_.name not in ("float", "double", "decimal"):
                return None
        case _:
            whole = whole_number(tree)
            return None if whole is None else Fraction(whole)
    return value if not value or abs(value) > _SMALLEST else None


def whole_number(tree: exp.Expression) -> int | None:
    """The value of integers added, subtracted and multiplied, where no step of it is too large for an INT."""
    match tree:
        case exp.Literal() if tree.is_int:
            found: int | None = int(tree.name)
        case exp.Paren():
            found = whole_number(tree.this)
        case exp.Add() | exp.Sub() | exp.Mul():
            left, right = whole_number(tree.this), whole_number(tree.expression)
            if left is None or right is None:
                return None
            found = (
                left * right if isinstance(tree, exp.Mul) else left + (right if isinstance(tree, exp.Add) else -right)
            )
        case _:
            return None
    return found if found is not None and abs(found) < 2**31 else None


def is_time_literal(tree: exp.Expression) -> bool:
    """Whether an expression is a string that Spark casts to any type of dates or times: ``'2026-01-31 10:00:00'``."""
    if not (isinstance(tree, exp.Literal) and tree.is_string and _TIME.fullmatch(tree.name)):
        return False
    try:
        datetime.fromisoformat(tree.name)
    except ValueError:
        return False
    return True
