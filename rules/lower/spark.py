"""Leaves all other nodes to Spark."""

from planner.logical import Logical
from planner.physical.base import Spark
from rules.context import Context
from rules.rule import rule


@rule(Logical, streams="any")
def leave_to_spark(node: Logical, ctx: Context) -> Spark:
    """Leave a clause to Spark as the user wrote it."""
    return Spark(node)
