"""Normalizes conditions: ``ON (a.k = b.k AND NOT (b.x < a.lo OR b.x > a.hi))`` is three conjuncts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.conditions.canonical_form import comparison
from dovetail.planner.conditions.normal_form import normal_form
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import HOLE, Scalar
from dovetail.planner.expr.subqueries import subquery_test
from dovetail.planner.expr.substitution import operand
from dovetail.planner.expr.tokens import words
from dovetail.planner.logical import Cte, Filter, Join, Logical
from dovetail.rules.context import Context
from dovetail.rules.query.query_block import read_block
from dovetail.rules.query.tables import tables
from dovetail.rules.rule import rule

_COUNTS = (words("count(*)"), words("count(1)"))
_NONE = frozenset(("n=0", "n==0", "n<=0", "n<1", "0=n", "0==n", "0>=n", "1>n"))
_SOME = frozenset(("n>0", "n>=1", "n<>0", "n!=0", "0<n", "1<=n", "0<>n", "0!=n"))


@rule(Join, Filter, streams="one")
def predicates(node: Join | Filter, ctx: Context) -> Logical | None:
    """Normalize a condition: split it into conjuncts, push NOT inward, and take the common part out of OR.

    Later rules then read one canonical form where SQL has many.  A condition that no rule has changed is
    still printed as it was written.
    """
    if not node.condition or (isinstance(node, Filter) and node.clause == "QUALIFY"):
        return None
    try:
        condition = normal_form(node.condition)
        if isinstance(node, Filter) and node.clause == "WHERE" and any(c.plans for c in condition):
            condition = tuple(as_exists(c, node.child, ctx.definitions) for c in condition)
            condition = tuple(in_as_comparison(c, node.child, ctx) for c in condition)
    except Unsupported:
        return None
    if condition == node.condition:
        return None
    if condition:
        return replace(node, condition=condition)
    if isinstance(node, Filter) and node.clause == "WHERE":  # HAVING TRUE makes one group of all rows
        return node.child
    return None


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


def as_exists(conjunct: Scalar, outer: Logical, definitions: Mapping[str, Cte]) -> Scalar:
    """EXISTS in the place of a count that is more than 0, NOT EXISTS where it is 0; any other conjunct as it is.

    A count over no groups is never NULL, so that neither is ever unknown.  Rows that are counted within a band of the
    very table stay a count, which a window computes for each row: ``outer`` is what WHERE stands over.
    """
    block = read_block(conjunct.plans[0]) if len(conjunct.plans) == 1 else None
    if block is None or not block.is_plain:
        return conjunct
    if any(map(looks_like_band, block.condition)) and tables(block.tree, definitions) & tables(outer, definitions):
        return conjunct
    if len(block.project.items) != 1 or words(block.project.items[0].text) not in _COUNTS:
        return conjunct
    compared = comparison(conjunct.text)
    normalized = "".join(compared[:3]).replace(f"( {HOLE}0 )", "n") if compared else ""
    if normalized not in _NONE and normalized not in _SOME:
        return conjunct
    test = f"NOT EXISTS ({HOLE}0)" if normalized in _NONE else f"EXISTS ({HOLE}0)"
    return Scalar(test, (replace(block.project, items=(Scalar("1"),)),), conjunct.place)
