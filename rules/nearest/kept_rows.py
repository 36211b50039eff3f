"""Conditions of WHERE that a join with the nearest row can test before it sorts: those over its left side alone.

They stay in WHERE as well.  A window would otherwise see every row of the left side: Spark moves no condition below it.
"""

from __future__ import annotations

from dovetail.planner.bind.scope import Scope
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.calls import volatile
from dovetail.planner.logical import Join, Logical
from dovetail.planner.logical.nearest_syntax import NearestSyntax
from dovetail.rules.analysis.speculation import may_raise
from dovetail.rules.context import Context
from dovetail.rules.query.query_block import QueryBlock


def kept_rows(
    condition: tuple[Scalar, ...], tree: tuple[Logical, ...], left: Logical, first: int, ctx: Context
) -> tuple[Scalar, ...]:
    """The conditions above a FROM of the relations ``tree`` that each row of ``left`` has to fulfill, and never raise.

    ``first``: the number in ``tree`` of the first relation of ``left``.  No outer join in ``tree`` fills it with NULL.
    """
    scope = ctx.scope(*tree)
    numbers = range(first, first + len(ctx.names.sources(left)))
    own = (c for c in condition if not c.plans and _reads_only(c, scope, numbers))
    return tuple(c for c in own if not may_raise(c, scope.type_of, ctx))


def kept_above(block: QueryBlock, join: Join | NearestSyntax, ctx: Context) -> tuple[Scalar, ...]:
    """The same where FROM is one join; an inner join that is no as-of join has them among its conditions."""
    if isinstance(join, Join) and join.kind != "left":
        return ()
    return kept_rows(block.condition, (join.left, join.right), join.left, 0, ctx)


def _reads_only(conjunct: Scalar, scope: Scope, numbers: range) -> bool:
    """Whether all columns of a condition are of some relations, and it has the same value wherever it is evaluated."""
    try:
        columns = scope.bind(conjunct).columns
        fixed = not volatile(conjunct.tree)
    except Refused:
        return False
    return bool(columns) and fixed and all(not c.level and c.relation in numbers for c in columns)
