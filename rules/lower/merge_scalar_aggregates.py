"""Lowers merged scalar aggregates: one scan of their source computes all of them."""

from dovetail.planner.logical.self_join import MergedScalarAggregates
from dovetail.planner.physical.base import Rewriting
from dovetail.rules.context import Context
from dovetail.rules.rule import rule


@rule(MergedScalarAggregates)
def lower_merged_scalar_aggregates(node: MergedScalarAggregates, ctx: Context) -> Rewriting:
    """Compute the merged scalar aggregates in one scan, since a FILTER costs less than another scan."""
    return Rewriting(node.other, "MergedScalarAggregates", node.description, node.output)
