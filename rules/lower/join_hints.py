"""Applies the hints that concern the choice of physical operators."""

from dataclasses import replace

from dovetail.planner.expr import Scalar
from dovetail.planner.hints.blocks import RANGE_JOIN, read_hints, without
from dovetail.planner.hints.lookup import LOOKUP
from dovetail.planner.logical import BandJoin, Project
from dovetail.planner.physical.base import Spark
from dovetail.rules.context import Context
from dovetail.rules.lookup.hinted import is_lookup, left_of, lookups_in
from dovetail.rules.rule import rule


@rule(Project, streams="any")
def drop_lookup_hints(project: Project, ctx: Context) -> Spark | None:
    """Remove the hints of lookup joins from the SQL that Spark gets."""
    lookups = lookups_in(project.child)
    hints = read_hints(project.hint)
    if not lookups or not hints:
        return None
    kept: list[str] = []
    for hint in hints:
        if hint.name in (LOOKUP, RANGE_JOIN):
            continue
        others = [a.text for a in hint.arguments if not (is_lookup(a, lookups) or left_of(a, lookups))]
        if hint.strategy != "SHUFFLE_HASH" or len(others) == len(hint.arguments):
            kept.append(hint.text)
        elif others:
            kept.append(f"{hint.name}({', '.join(others)})")
    place = project.hint.place if project.hint else None
    block = Scalar(f"/*+ {', '.join(kept)} */", (), place) if kept else None
    return Spark(replace(project, hint=block))


@rule(Project, streams="any")
def drop_range_join(project: Project, ctx: Context) -> Spark | None:
    """Remove RANGE_JOIN hints from the SQL that Spark gets, which does not know them."""
    hint = without(project.hint, RANGE_JOIN)
    return None if hint is project.hint else Spark(replace(project, hint=hint))


@rule(BandJoin, streams="any")
def keep_nested_loop(join: BandJoin, ctx: Context) -> Spark | None:
    """Leave a join to Spark if a hint requests a nested loop join.

    Spark heeds SHUFFLE_REPLICATE_NL on inner joins, and when no other hint names the join.
    """
    strategies = {h.hint.strategy for h in join.hints if h.whole} - {""}
    if strategies != {"SHUFFLE_REPLICATE_NL"} or join.kind not in ("inner", "cross"):
        return None
    hint = next(h.hint for h in join.hints if h.hint.strategy)
    ctx.decline(f"{join.band}: {hint.text} asks for Spark's nested loop", join.band.conjuncts[0].place)
    return Spark(join.plain)
