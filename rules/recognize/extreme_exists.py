"""Recognizes EXISTS, semi and anti joins that one row of each key decides: ``l.user = o.user AND l.ts <= o.ts``."""

from __future__ import annotations

from contextlib import suppress

from dovetail.planner.band.comparisons import is_or_of_comparisons, looks_like_band
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Filter, Join, Logical, OneRow
from dovetail.planner.logical.extreme_semi_join import ExtremeSemiJoin
from dovetail.rules.context import Context
from dovetail.rules.nearest.extreme_rows import extreme_semi_join
from dovetail.rules.query.decorrelation import bounds
from dovetail.rules.query.exists_as_join import exists_as_join
from dovetail.rules.query.exists_tests import simple_test
from dovetail.rules.query.query_block import move_conjuncts, read_block
from dovetail.rules.rule import rule


@rule(Join, Filter, needs=("semi_join", "subquery"))
def extreme_exists(node: Join | Filter, ctx: Context) -> Logical | None:
    """Recognize a semi or anti join whose condition the least or the greatest value of each key decides.

    Some row has a value up to a bound if and only if the least value is up to it.  The same holds for EXISTS and IN in
    WHERE, which are semi joins.
    """
    if isinstance(node, Join):
        try:
            return extreme_semi_join(node, ctx)
        except Refused as no:
            if bounds(node.condition) < 2:  # otherwise it may be a band
                ctx.decline(f"not only the least or the greatest value: {no.reason}", no.place, no.code)
            return None
    if node.clause != "WHERE" or isinstance(node.child, OneRow):
        return None
    return move_conjuncts(
        node.child, node.condition, lambda test, tree: _joined(test, tree, ctx) if test.plans else None
    )


def _joined(conjunct: Scalar, tree: Logical, ctx: Context) -> ExtremeSemiJoin | None:
    """Join the relations of a query with those of the subquery in a conjunct; None if the rule does not apply."""
    test = simple_test(conjunct)
    block = read_block(test.query) if test else None
    if test is None or block is None:
        return None
    across: tuple[Scalar, ...] = ()
    if candidates := tuple(c for c in block.condition if looks_like_band(c) or is_or_of_comparisons(c)):
        with suppress(Refused):
            scope = ctx.scope(block.tree, outer=ctx.scope(tree))
            across = tuple(c for c in candidates if len(scope.bind(c).levels) > 1)
    if not across:
        return None
    if not any(map(looks_like_band, across)):
        reason = f"{across[0].shown} is an OR, so no single value of the subquery decides"
        return ctx.decline(f"{test} stays a subquery: {reason}", across[0].place, "or_condition")
    try:
        return extreme_semi_join(exists_as_join(test, block, tree, ctx), ctx)
    except Refused as no:
        if bounds(across) < 2:  # otherwise exists_to_join has a reason
            ctx.decline(f"{test} stays a subquery: {no.reason}", no.place or across[0].place, no.code)
        return None
