"""Applies the hints that concern the choice of physical operators."""

from dataclasses import replace

from dovetail.planner.expr import Scalar
from dovetail.planner.hints.blocks import RANGE_JOIN, read_hints
from dovetail.planner.hints.lookup import LOOKUP
from dovetail.planner.logical import BandJoin, Project
from dovetail.planner.physical.base import Spark
from dovetail.rules.context import Context
from dovetail.rules.lookup.hinted import is_lookup, left_of, lookups_in
from dovetail.rules.rule import rule


@rule(Project, needs=("hint",), streams="any")
def drop_hints(project: Project, ctx: Context) -> Spark | None:
    """Remove the hints of band joins and lookups from the SQL that Spark gets, which does not know them."""
    hints, lookups = read_hints(project.hint), lookups_in(project.child)
    kept: list[str] = []
    for hint in hints:
        if hint.name == RANGE_JOIN or (lookups and hint.name == LOOKUP):
            continue
        others = [a.text for a in hint.arguments if not (is_lookup(a, lookups) or left_of(a, lookups))]
        if hint.strategy != "SHUFFLE_HASH" or len(others) == len(hint.arguments):
            kept.append(hint.text)
        elif others:
            kept.append(f"{hint.name}({', '.join(others)})")
    if project.hint is None or kept == [hint.text for hint in hints]:
        return None
    return Spark(replace(project, hint=Scalar(f"/*+ {', '.join(kept)} */", (), project.hint.place) if kept else None))


@rule(BandJoin, needs=("hint",), streams="any")
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
