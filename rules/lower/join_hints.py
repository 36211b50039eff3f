"""What hints still have to do when operators are chosen."""

from dataclasses import replace

from planner.hints import RANGE_JOIN, without
from planner.logical import BandJoin, Project
from planner.physical.base import Spark
from rules.rule import Context, rule


@rule(Project)
def drop_range_join(project: Project, ctx: Context) -> Spark | None:
    """Take RANGE_JOIN out of what Spark gets: it has had its say, and Spark would say that it does not know it."""
    hint = without(project.hint, RANGE_JOIN)
    return None if hint is project.hint else Spark(replace(project, hint=hint))


@rule(BandJoin)
def keep_nested_loop(join: BandJoin, ctx: Context) -> Spark | None:
    """Leave a join to Spark where a hint asks for the nested loop that bins are there to avoid.

    Spark heeds SHUFFLE_REPLICATE_NL on inner joins, and when no other hint names the join.
    """
    asked = {h.hint.strategy for h in join.hints if h.whole} - {""}
    if asked != {"SHUFFLE_REPLICATE_NL"} or join.kind not in ("inner", "cross"):
        return None
    hint = next(h.hint for h in join.hints if h.hint.strategy)
    ctx.decline(f"{join.band}: {hint.text} asks for Spark's nested loop", join.band.conjuncts[0].place)
    return Spark(join.plain)
