"""Totals of one source, in one reading."""

from planner.logical.self_join import MergedTotals
from planner.physical.base import Rewriting
from rules.rule import Context, rule


@rule(MergedTotals)
def lower_merged_totals(node: MergedTotals, ctx: Context) -> Rewriting:
    """Read the source once: a FILTER costs less than to read a row again, however many there are."""
    return Rewriting(node.other, "MergedTotals", node.said, node.output)
