"""How versions of a table are read, and joined as of a time."""

from planner.logical.versions import TemporalJoin, Versions
from planner.physical.versions import AsofJoin, VersionedTable
from rules.rule import Context, rule


@rule(Versions, streams="any")
def lower_versions(versions: Versions, ctx: Context) -> VersionedTable:
    """Give each version its end with a window over its key."""
    return VersionedTable(versions.validity)


@rule(TemporalJoin, streams="any")
def lower_temporal_join(join: TemporalJoin, ctx: Context) -> AsofJoin:
    """Take Spark's as-of join, which the session has switched on."""
    return AsofJoin(join.left, join.right, join.kind, join.time, join.since, join.condition)
