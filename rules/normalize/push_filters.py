"""Pushes filters down to joins: ``FROM a, b WHERE a.x BETWEEN b.lo AND b.hi`` is a join on that band.

A condition in WHERE that rejects the NULLs of a relation drops the rows that an outer join adds without a match in it
(Galindo-Legaria and Rosenthal, "Outerjoin Simplification and Reordering for Query Optimization", TODS 1997).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from dovetail.planner.band.comparisons import is_or_of_comparisons, looks_like_band
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, is_reference
from dovetail.planner.keys.read_keys import looks_like_keys
from dovetail.planner.logical import JOIN_KEYWORDS, Filter, Join, JoinKind, Logical, Scan, nodes_of_from
from dovetail.planner.tree import Node
from dovetail.rules.context import Context
from dovetail.rules.query.query_block import move_conjuncts
from dovetail.rules.rule import rule

_COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ)
_STRICT = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Paren, exp.Cast, exp.Abs)


@rule(Filter, streams="any")
def push_filters(node: Filter, ctx: Context) -> Logical | None:
    """Push a WHERE condition down to the inner join whose two sides it compares.

    Spark does this as well, but later; the rules need to see the condition of the join now.  Nothing moves into an
    outer, semi or anti join, where ON means something else; there a condition moves only below the join, to its
    preserved side.  Where WHERE has a band, an outer join whose added rows a condition drops is an inner join first:
    NULL is between no two values.  Nothing moves into a join with USING.  A condition on a lookup's columns moves into
    its join, where it becomes a key or limits the fetch.  Queries without a possible band and without lookups are
    skipped, so that resolving names costs them nothing.
    """
    if node.clause != "WHERE" or not isinstance(node.child, Join):
        return None
    has_band = any(looks_like_band(c) or is_or_of_comparisons(c) for c in node.condition)
    has_keys = any(map(looks_like_keys, node.condition))
    if not has_band and not has_keys and not any(_is_lookup(n, ctx) for n in nodes_of_from(node.child)):
        return None
    return move_conjuncts(node, lambda c, join: _place(c, join, ctx, simplify=has_band))  # type: ignore[arg-type]


def _place(conjunct: Scalar, join: Join, ctx: Context, *, simplify: bool) -> Join | None:
    """The join with the conjunct added at the deepest place where it compares two sides; None if there is none."""
    try:
        sides = _sides(conjunct, join, ctx)
    except Refused as no:
        if looks_like_band(conjunct):
            ctx.decline(f"{conjunct.shown}: {no}", conjunct.place)
        return None
    join = _simplified(join, conjunct, ctx) if simplify else join
    merges = bool(join.using) or join.natural  # using_to_on writes such a join with ON, or gives the reason
    if join.kind in ("inner", "cross") and not merges:
        if sides == {"left", "right"} or (sides == {"right"} and _is_lookup(join.right, ctx)):
            keyword = "JOIN" if join.kind == "cross" else join.keyword
            return Join(join.left, join.right, "inner", keyword, (*join.condition, conjunct))
    elif sides == {"left", "right"} and looks_like_band(conjunct) and not merges:
        reason = f"{conjunct.shown}: WHERE comes after the {join.kind} join and cannot be part of it"
        return ctx.decline(reason, conjunct.place, "after_outer_join")
    elif not _filters_side(join, sides):
        return None
    for side, child in (("left", join.left), ("right", join.right)):
        if sides == {side} and isinstance(child, Join):
            below = _place(conjunct, child, ctx, simplify=simplify)
            return below and (replace(join, left=below) if side == "left" else replace(join, right=below))
    return None


def _filters_side(join: Join, sides: set[str]) -> bool:
    """Whether a condition on these sides, above a join, may filter a side that the join adds no rows to."""
    return not join.natural and join.kind != "full" and sides == {"right" if join.kind == "right" else "left"}


def _is_lookup(relation: Node, ctx: Context) -> bool:
    return isinstance(relation, Scan) and ctx.names.lookup(relation) is not None


def _simplified(join: Join, conjunct: Scalar, ctx: Context) -> Join:
    """An outer join without the rows that a conjunct above it drops, since it rejects the NULLs in them."""
    if join.kind not in ("left", "right", "full") or join.using or join.natural:
        return join
    scope, middle = ctx.scope(join), len(ctx.names.sources(join.left))
    found = filter(None, map(scope.find, null_rejected_columns(conjunct.tree)))
    rejected = {"left" if column.relation < middle else "right" for column in found}
    kept = {"left"} if join.kind == "left" else {"right"} if join.kind == "right" else {"left", "right"}
    preserved = kept - {"right" if side == "left" else "left" for side in rejected}
    if preserved == kept:
        return join
    kind: JoinKind = "inner" if not preserved else preserved.pop()  # type: ignore[assignment]
    return replace(join, kind=kind, keyword=JOIN_KEYWORDS[kind])


def _sides(conjunct: Scalar, join: Join, ctx: Context) -> set[str]:
    if conjunct.plans or conjunct.tree.find(exp.Subquery, exp.Exists):
        return set()
    if ctx.volatile_call(conjunct.tree, join):
        raise Refused("it is not known to be deterministic")
    middle = len(ctx.names.sources(join.left))
    return {"left" if number < middle else "right" for number in ctx.scope(join).bind(conjunct).relations}


def null_rejected_columns(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The columns of a condition that is not TRUE where one of them is NULL; those of comparisons only."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, _COMPARISONS):
        operands = [condition.this, condition.expression]
    elif isinstance(condition, exp.Between) and not condition.args.get("symmetric"):
        operands = [condition.this, condition.args["low"], condition.args["high"]]
    else:
        return
    for operand in operands:
        yield from _strict_columns(operand)


def _strict_columns(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The columns of an expression that is NULL where one of them is."""
    if is_reference(tree):
        yield tree
    elif isinstance(tree, _STRICT):
        for operand in (tree.this, tree.args.get("expression")):
            if isinstance(operand, exp.Expr):
                yield from _strict_columns(operand)
