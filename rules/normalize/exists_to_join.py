"""Turns EXISTS and IN into semi joins: ``FROM p WHERE EXISTS (SELECT 1 FROM i WHERE p.x BETWEEN i.lo AND i.hi)``."""

from __future__ import annotations

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Filter, Join, Logical
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import has_band_or_keys, may_have_band_or_keys
from dovetail.rules.query.exists_as_join import exists_as_join
from dovetail.rules.query.exists_tests import simple_test
from dovetail.rules.query.query_block import move_conjuncts, read_block
from dovetail.rules.rule import rule


@rule(Filter, needs=("subquery",), streams="one")
def exists_to_join(node: Filter, ctx: Context) -> Logical | None:
    """Turn EXISTS and IN in WHERE into semi joins, and NOT EXISTS and NOT IN into anti joins.

    Spark does this as well, but later; the rules need to see the band between the query and its subquery now.  The
    subquery's FROM becomes the right side and its WHERE the condition, as written, except that ambiguous names are
    qualified.  Subqueries without a possible band or keys are skipped, so that resolving names costs them nothing;
    NOT IN over several columns has keys, and Spark compares all pairs for it.  (Kim, "On Optimizing an SQL-like
    Nested Query", TODS 1982.)
    """
    return move_conjuncts(node, lambda test, tree: _joined(test, tree, ctx) if test.plans else None)


def _joined(conjunct: Scalar, tree: Logical, ctx: Context) -> Join | None:
    """Join the relations of a query with those of the subquery in a conjunct; None if the rule does not apply."""
    test = simple_test(conjunct)
    if not test:
        return None  # in a larger condition it is a value: correlated_groups
    block = read_block(test.query)
    if not block:
        return None
    candidates = tuple(filter(may_have_band_or_keys, block.condition))
    has_keys = test.negated and len(test.values) > 1
    if not (has_keys or has_band_or_keys(candidates)):
        return None
    place = candidates[0].place if candidates else conjunct.place
    try:
        scope = ctx.scope(block.tree, outer=ctx.scope(tree))
        across = tuple(c for c in candidates if len(scope.bind(c).levels) > 1)
        if not (has_keys or has_band_or_keys(across)):
            return None
        return exists_as_join(test, block, tree, ctx)
    except Refused as no:
        return ctx.decline(f"{test} stays a subquery: {no}", place, no.code)
