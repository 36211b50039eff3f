"""Speculation: evaluating an expression behind a filter on rows that the filter leaves out.

    SELECT * FROM t WHERE v <> 0 AND 10 / v > 3        never divides by v = 0: the first filter guards the second
    SELECT id, 10 / v AS share FROM t                  may divide by any v: nothing guards the column

Spark computes the columns of a relation that it shuffles, broadcasts or caches for every row, and documents no order of
evaluation; only a condition in WHERE or ON keeps the conditions behind it from its rows.  A rewriting may therefore
compute an expression for any row of the relation that it reads, but evaluates no filter before one that stands in
front of it (ARCHITECTURE.md, Promises).  In a select list, ``AND`` guards nothing: Spark evaluates a common
subexpression of it first.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from dovetail.planner.expr import Scalar
from dovetail.planner.types.try_expressions import Original, TypeOf, UnsafeSpeculation, can_raise
from dovetail.rules.context import Context


def may_raise(expression: Scalar | exp.Expr, known: TypeOf, ctx: Context) -> bool:
    """Whether an expression could raise an error on some row, or that is unknown; ``known``: the types of columns."""
    return can_raise(expression, known, ansi=ctx.catalog.settings.ansi)


def check_speculation(expressions: Iterable[Scalar], known: TypeOf, ctx: Context, original: Original = "join") -> None:
    """Raise ``UnsafeSpeculation`` for an expression that can raise an error; ``known`` returns the types of columns."""
    for scalar in expressions:
        if may_raise(scalar, known, ctx):
            raise UnsafeSpeculation(scalar.shown, scalar.place, original)


def check_order(filters: tuple[Scalar, ...], written: Iterable[tuple[str, ...]], known: TypeOf, ctx: Context) -> None:
    """Raise ``UnsafeSpeculation`` for a filter that can raise and whose guards do not all stand in front of it.

    ``filters``: those that the rewriting evaluates, in order.  ``written``: the filters of each reader of the original
    query, in order, as texts over the relations of the rewriting; one reader whose guards are kept is enough.
    """
    written = tuple(written)
    for number, scalar in enumerate(filters):
        before = {one.text for one in filters[:number]}
        guards = [set(texts[: texts.index(scalar.text)]) for texts in written if scalar.text in texts]
        if not any(guard <= before for guard in guards):
            check_speculation((scalar,), known, ctx, "query")
