"""Normalizes conditions: ``ON (a.k = b.k AND NOT (b.x < a.lo OR b.x > a.hi))`` is three conjuncts."""

from dataclasses import replace

from dovetail.planner.conditions.normal_form import normal_form
from dovetail.planner.errors import Unsupported
from dovetail.planner.logical import Filter, Join, Logical
from dovetail.rules.context import Context
from dovetail.rules.query.count_as_exists import as_exists
from dovetail.rules.query.in_as_comparison import in_as_comparison
from dovetail.rules.rule import rule


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
