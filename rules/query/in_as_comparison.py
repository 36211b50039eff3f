"""Recognizes IN over one value: ``x IN (SELECT max(y) …)`` is ``x = (SELECT max(y) …)``, and NOT IN is ``<>``."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.errors import Refused
from dovetail.planner.expr import HOLE, Scalar
from dovetail.planner.expr.subqueries import subquery_test
from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical import Logical
from dovetail.rules.context import Context
from dovetail.rules.query.query_block import read_block


def in_as_comparison(conjunct: Scalar, outer: Logical, ctx: Context) -> Scalar:
    """A comparison with an aggregate of all rows of a subquery in the place of IN; any other conjunct as it is.

    Both types must be one, since IN casts otherwise.  ``outer`` is what WHERE stands over.
    """
    test = subquery_test(conjunct)
    block = read_block(test.query) if test and len(test.values) == 1 else None
    if test is None or test.value is None or block is None or not block.is_plain or block.project.quantifier:
        return conjunct
    items = block.project.items
    if len(items) != 1 or not block.is_aggregated or items[0].tree.find(exp.Window):
        return conjunct
    try:
        wanted = ctx.scope(outer).bind(test.value).type
        found = ctx.names.columns(test.query)  # type: ignore[arg-type]
    except Refused:
        return conjunct
    if wanted is None or wanted.name == "char" or found is None or found[0].type != wanted:
        return conjunct
    sign = "<>" if test.negated else "="
    return Scalar(f"{operand(test.value.text)} {sign} ({HOLE}0)", conjunct.plans, conjunct.place)
