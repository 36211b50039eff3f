"""Leaves all other nodes to Spark."""

from dovetail.planner.logical import Logical
from dovetail.planner.physical.base import Spark
from dovetail.rules.context import Context
from dovetail.rules.rule import rule


@rule(Logical, streams="any")
def leave_to_spark(node: Logical, ctx: Context) -> Spark:
    """Leave a clause to Spark as the user wrote it."""
    return Spark(node)
