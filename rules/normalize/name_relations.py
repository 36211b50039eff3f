"""Names subqueries in FROM that have no name: ``a JOIN (SELECT …)``."""

from __future__ import annotations

from dovetail.planner.logical import Derived, Join, LateralView, Logical, Project
from dovetail.planner.logical.nearest_syntax import NearestSyntax
from dovetail.rules.context import Context
from dovetail.rules.query.from_items import name_subqueries
from dovetail.rules.rule import rule


@rule(Derived, needs=(Derived,), streams="any")
def name_relations(node: Derived, ctx: Context) -> Logical | None:
    """Name a subquery in FROM that has no name, next to other relations or to subqueries that may read its columns."""
    for above in reversed(ctx.ancestors):
        if above.subplans or isinstance(above, Join | LateralView | NearestSyntax):
            return name_subqueries(node, ctx.fresh)
        if isinstance(above, Project):
            break
    return None
