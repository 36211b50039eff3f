"""Totals of one source, in one reading."""

from planner.logical.self_join import MergedTotals
from planner.physical.base import Rewriting
from rules.context import Context
from rules.rule import rule


@rule(MergedTotals)
def lower_merged_totals(node: MergedTotals, ctx: Context) -> Rewriting:
    """Compute the merged scalar aggregates in one scan, since a FILTER costs less than another scan."""
    return Rewriting(node.other, "MergedTotals", node.said, node.output)
