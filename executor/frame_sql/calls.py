"""Calls of functions and operators by their names in Spark, as trees of sqlglot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from sqlglot import exp

from dovetail.planner.errors import Refused
from dovetail.planner.expr.functions import VOLATILE

FUNCTION, SUBQUERY = "a function of yours is not written as SQL", "a subquery is not written as SQL"
_BINARY: dict[str, type[exp.Binary]] = {
    "==": exp.EQ,
    "=": exp.EQ,
    "<=>": exp.NullSafeEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "+": exp.Add,
    "-": exp.Sub,
    "*": exp.Mul,
    "/": exp.Div,
    "%": exp.Mod,
    "and": exp.And,
    "or": exp.Or,
    "&": exp.BitwiseAnd,
    "|": exp.BitwiseOr,
    "^": exp.BitwiseXor,
    "like": exp.Like,
    "rlike": exp.RegexpLike,
}


def call(name: str, arguments: Sequence[exp.Expression]) -> exp.Expression:
    """Call a function, or write the operator that it is.  Raises ``Refused`` for one that is volatile."""
    if name.upper() in VOLATILE:
        raise other_value(name)
    if name in _BINARY and len(arguments) >= 2:
        operator: Callable[..., Any] = _BINARY[name]
        return reduce(lambda left, right: operator(this=left, expression=right), arguments)
    if written := _SPELLED.get(name):
        return written(arguments)
    return exp.Anonymous(this=name, expressions=list(arguments))


def other_value(name: str) -> Refused:
    """The error for a volatile function."""
    return Refused(f"{name}() could have another value in another plan")


def _is_null(arguments: Sequence[exp.Expression]) -> exp.Expression:
    return exp.Is(this=arguments[0], expression=exp.Null())


def _case_when(arguments: Sequence[exp.Expression]) -> exp.Expression:
    """CASE with conditions and values in turn, and behind them the value of ELSE, if there is one."""
    pairs = zip(arguments[0::2], arguments[1::2], strict=False)
    default = arguments[-1] if len(arguments) % 2 else None
    return exp.Case(ifs=[exp.If(this=test, true=value) for test, value in pairs], default=default)


_SPELLED: dict[str, Callable[[Sequence[exp.Expression]], exp.Expression]] = {
    "not": lambda arguments: exp.Not(this=arguments[0]),
    "!": lambda arguments: exp.Not(this=arguments[0]),
    "~": lambda arguments: exp.BitwiseNot(this=arguments[0]),
    "-": lambda arguments: exp.Neg(this=arguments[0]),
    "negative": lambda arguments: exp.Neg(this=arguments[0]),
    "isNull": _is_null,
    "isnull": _is_null,
    "isNotNull": lambda arguments: exp.Not(this=_is_null(arguments)),
    "isnotnull": lambda arguments: exp.Not(this=_is_null(arguments)),
    "in": lambda arguments: exp.In(this=arguments[0], expressions=list(arguments[1:])),
    "when": _case_when,
}
