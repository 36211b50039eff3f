"""Filters that Spark infers for the other side of a join: ``10 / i.k > 3`` from ``i.k = p.k`` and ``10 / p.k > 3``.

Spark infers them for a join, but not for EXISTS and IN, which it turns into joins later.  In a join that a rule makes
of EXISTS, the filter is evaluated on rows of the other side as well, and could raise an error there.  (Spark's rule
InferFiltersFromConstraints.)
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from sqlglot import exp

from dovetail.planner.band.linear import ConditionScope
from dovetail.planner.expr import Scalar, sql
from dovetail.planner.logical import Filter, Join, Logical
from dovetail.planner.types.schema import SqlType
from dovetail.rules.analysis.speculation import check_speculation
from dovetail.rules.context import Context
from dovetail.rules.query.condition_scope import condition_scope


def check_inferred_filters(join: Join, ctx: Context, where: Iterable[Scalar] = (), *, subquery: bool = True) -> None:
    """Raise ``UnsafeSpeculation`` for a filter of one side that could raise an error on the other side.

    ``join`` is a semi or anti join.  ``subquery``: the query has a subquery in its place, with the filters ``where``
    beside it.  For a join that is written, Spark infers filters from equal columns itself; only computed keys, which
    the rewriting makes columns, let it infer more.  Filters within a view are not looked at.
    """
    if not ctx.catalog.settings.ansi:
        return
    scope = condition_scope(join, ctx)
    equal = {
        column
        for conjunct in join.condition
        if _is_key(conjunct.tree, subquery) and scope.side(conjunct.tree) == "both"
        for column in _columns(conjunct, scope)
    }
    if not equal:
        return
    outer, both = ctx.scope(join.left), ctx.scope(join.left, join.right)
    beside = (outer.bind(c).rebind(both, lambda x: (x.relation, x.column.name)) for c in where if not c.plans)
    for conjunct in (*join.condition, *beside):
        of_one_side = scope.side(conjunct.tree) != "both"
        if of_one_side and _columns(conjunct, scope) <= equal:
            check_speculation((conjunct,), scope.type_of, ctx, "query")
    for node in (*join.left.walk(), *join.right.walk()):
        if isinstance(node, Filter) and node.clause == "WHERE":
            check_speculation(node.condition, partial(_type_of, ctx, node.child), ctx, "query")


def _is_key(tree: exp.Expression, subquery: bool) -> bool:
    return isinstance(tree, exp.EQ) and (
        subquery or not all(isinstance(side, exp.Column) for side in (tree.this, tree.expression))
    )


def _columns(conjunct: Scalar, scope: ConditionScope) -> set[str]:
    return {scope.canonical(column) for column in conjunct.tree.find_all(exp.Column)}


def _type_of(ctx: Context, relation: Logical, tree: exp.Expression) -> SqlType | None:
    return ctx.scope(relation).bind(tree).type or ctx.type_of(sql(tree), relation)
