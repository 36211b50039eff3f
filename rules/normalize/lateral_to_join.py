"""Turns LATERAL into a join: ``FROM p, LATERAL (SELECT i.lo, i.hi FROM i WHERE p.x BETWEEN i.lo AND i.hi) t``."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, is_star
from dovetail.planner.logical import JOIN_KEYWORDS, Derived, Filter, Join, Logical
from dovetail.planner.sql.names import Resolver
from dovetail.planner.sql.scope import BoundColumn, Scope
from dovetail.planner.types.schema import Column
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import (
    bounds,
    check_deterministic,
    check_inner,
    is_aggregated,
    more_than_a_block,
    why_not_simple,
)
from dovetail.rules.query.query_block import QueryBlock, read_block
from dovetail.rules.rule import rule


@rule(Join, streams="one")
def lateral_to_join(join: Join, ctx: Context) -> Logical | None:
    """Turn a LATERAL subquery that filters by the left row into a join.

    Spark does this as well, but later; the rules need to see the band between the two sides now.  The subquery must
    return the columns that its conditions compare.  A subquery without a possible band is left as it is.
    (Decorrelation: Galindo-Legaria and Joshi, "Orthogonal Optimization of Subqueries and Aggregation", SIGMOD
    2001.)
    """
    right = join.right
    if not isinstance(right, Derived) or not right.lateral or join.kind not in ("inner", "cross", "left"):
        return None
    block = read_block(right.query)
    if not block or join.using or join.natural or bounds((*block.condition, *join.condition)) < 2:
        return None
    if block.is_plain and is_aggregated(block):
        return None  # correlated_groups
    place = next(c.place for c in (*block.condition, *join.condition) if looks_like_band(c))
    try:
        return _join(join, right, block, ctx.names)
    except Refused as no:
        return ctx.decline(f"LATERAL stays a subquery: {no}", place)


def _join(join: Join, right: Derived, block: QueryBlock, names: Resolver) -> Join:
    if block.clauses:
        raise Refused(more_than_a_block(block.clauses[0]))
    if block.project.hint or block.project.quantifier:
        raise Refused("the subquery has a hint, DISTINCT or ALL of its own")
    if not right.alias:
        raise Refused("the subquery has no name")
    check_inner(block.tree, names)
    outer = Scope.of(names, join.left)
    inner = Scope.of(names, block.tree, outer=outer)
    inside: list[Scalar] = []
    across: list[Scalar] = []
    for conjunct in block.condition:
        check_deterministic(conjunct)
        (inside if inner.bind(conjunct).levels <= {0} else across).append(conjunct)
    tree = Filter(block.tree, tuple(inside), "WHERE") if inside else block.tree
    alone = replace(right, query=replace(block.project, child=tree), lateral=False)
    made = [m for item in block.project.items for m in _made(item, block.tree, inner)]
    after = Scope.of(names, join.left, alone)
    seen = after.sources[-1]
    if seen.columns is None or len(seen.columns) != len(made):
        raise Refused("the columns of the subquery are not known")
    shown = {m: column.name for m, column in zip(made, seen.columns, strict=True) if m}

    def beside(origin: BoundColumn) -> tuple[int, str]:
        if origin.level:
            return origin.relation, origin.column.name
        name = shown.get((origin.relation, origin.column))
        if name is None:
            raise Refused(f"{origin.column.name} is not in its select list")
        return len(outer.sources), name

    condition = (*join.condition, *(inner.bind(c).rebind(after, beside) for c in across))
    kind = "left" if join.kind == "left" else "inner"
    keyword = join.keyword if join.kind == kind else JOIN_KEYWORDS["inner"]
    return Join(join.left, alone, kind, keyword, condition)  # type: ignore[arg-type]


def _made(item: Scalar, tree: Logical, scope: Scope) -> list[tuple[int, Column] | None]:
    """For each column that an item of the select list makes, the column that it is; None for one that is computed."""
    if item.plans:
        raise Refused("its select list holds a subquery")
    if why := why_not_simple(item.tree):
        raise Refused(why)
    bare = item.tree.unalias()
    if is_star(bare):
        return list(scope.names.expand_star(bare, scope.sources, tree))
    if scope.bind(item).levels - {0}:
        raise Refused(f"{item.shown} in its select list uses columns of the outer query")
    if not isinstance(bare, exp.Column):
        return [None]
    column = scope.column(bare)
    return [(column.relation, column.column)]
