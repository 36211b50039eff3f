"""Recognizes band joins: ``p.x BETWEEN i.lo AND i.hi``, ``c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MINUTES``."""

from __future__ import annotations

from contextlib import suppress

from sqlglot import exp

from dovetail.planner.band.comparisons import is_or_of_comparisons, looks_like_band, may_equal
from dovetail.planner.band.read_bands import OneSided, read_bands
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.calls import call_parts
from dovetail.planner.keys.read_keys import looks_like_keys
from dovetail.planner.logical import BandJoin, Join, LateralView, Logical, Opaque
from dovetail.planner.logical.relations import references_left
from dovetail.rules.context import Context
from dovetail.rules.query.condition_scope import condition_scope, equalities
from dovetail.rules.query.definitions import definition_of
from dovetail.rules.query.from_items import bare, leaves
from dovetail.rules.query.query_block import read_block
from dovetail.rules.query.subquery_columns import columns_inside
from dovetail.rules.recognize.key_join import read_key_schemes
from dovetail.rules.rule import rule


@rule(Join, streams="one")
def band_join(join: Join, ctx: Context) -> Logical | None:
    """Recognize a join that keeps a value of one side between two values of the other.

    Spark plans such a join by its equality keys alone, or as a nested loop if it has none.  Once the band is known,
    lowering can cut it into bins.  The condition stays in the join, whole and as written (DeWitt, Naughton and
    Schneider, "An Evaluation of Non-Equijoin Algorithms", VLDB 1991).
    """
    candidates = [c for c in join.condition if looks_like_band(c)]
    for conjunct in join.condition:
        if is_or_of_comparisons(conjunct) and conjunct not in candidates and not looks_like_keys(conjunct):
            reason = f"{conjunct.shown}: it is an OR, and one of its branches has neither an equality nor a band"
            ctx.decline(reason, conjunct.place, "or_condition")
    if not candidates:
        return _report_other_joins(join, ctx)
    place = candidates[0].place
    if references_left(join.right):
        return ctx.decline("the right side is LATERAL and is computed for each left row", place)
    if ctx.is_in_correlated_subquery:
        return ctx.decline("it is in a correlated subquery", place, "correlated")
    bands, refusals = read_bands(join.condition, condition_scope(join, ctx))
    if not bands:
        for no in refusals:
            ctx.decline(f"{no.reason}{_other_way(join, refusals, ctx)}", no.place, no.code)
        return None
    others = [c for c in join.condition if not any(c in band.conjuncts for band in bands)]
    if bins := _handmade_bins(others, join, ctx):
        reason = (
            f"{bins.shown} joins on bins already; to let Dovetail make them, join without explode, by the band alone"
        )
        return ctx.decline(reason, bins.place)
    schemes = read_key_schemes(join, ctx)[0] if others else ()
    schemes = tuple(scheme for scheme in schemes if not scheme.with_bands)
    return BandJoin(join.left, join.right, join.kind, bands[0], join.condition, bands[1:], schemes)


def _other_way(join: Join, refusals: tuple[Refused, ...], ctx: Context) -> str:
    """What else can be done about a join of which one comparison is all that bounds its pairs.

    Where a rule has a reason why the pairs are not the nearest ones, that reason is what helps.
    """
    alone = len(refusals) == 1 and isinstance(refusals[0], OneSided)
    if not alone or join.kind not in ("inner", "cross", "left", "right"):
        return ""
    if any(declined.rule.startswith("nearest_") for declined in ctx.declined):
        return ""
    return ", or over tables keep only the nearest row of each (docs/nearest.md)"


def _report_other_joins(join: Join, ctx: Context) -> None:
    """Decline for a condition in which nothing is equal and nothing lies between two values."""
    if references_left(join.right) or not join.condition:
        return
    if any(map(may_equal, join.condition)) or any(map(looks_like_keys, join.condition)):
        return
    if any(map(is_or_of_comparisons, join.condition)):
        return
    condition = " AND ".join(c.shown for c in join.condition)
    reason = f"{condition}: no equality and no band, so every pair is compared"
    ctx.decline(reason, join.condition[0].place, "no_equality")


def _handmade_bins(conjuncts: list[Scalar], join: Join, ctx: Context) -> Scalar | None:
    """The equality of a join on bins that the user has made; None if it has none."""
    for conjunct in conjuncts:
        with suppress(Refused):
            for equality in equalities((conjunct,), condition_scope(join, ctx)):
                ends = zip(equality.operands, (join.left, join.right), strict=True)
                if any(_is_bin(end, side, ctx) for end, side in ends):
                    return conjunct
    return None


def _is_bin(tree: exp.Expression, side: Logical, ctx: Context) -> bool:
    """Whether an expression is one of the numbers from one to another, each in a row of its own."""
    if isinstance(tree, exp.Explode):
        name, _ = call_parts(tree.this) or (tree.this.name, [])
        return name.lower() == "sequence"
    if not isinstance(tree, exp.Column):
        return False
    scope, relations = ctx.scope(side), leaves(side, named=True)
    column = scope.column(tree)
    if len(relations) != len(scope.sources):
        return False
    relation = bare(relations[column.relation])
    if isinstance(relation, LateralView | Opaque):
        text = relation.text.text.lower()
        return "explode" in text and "sequence" in text
    query = definition_of(relation, ctx)
    block = None if query is None else read_block(query)
    if block is None:
        return False
    inside = columns_inside(block, scope.sources[column.relation], ctx, computed=True)
    text = inside.get(column.name, "")
    return bool(text) and _is_bin(Scalar(text).tree, block.tree, ctx)
