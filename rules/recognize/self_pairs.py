"""Recognizes self-joins that only find keys with two different rows: ``x.k IN (SELECT a.k FROM t a, t b …)``."""

from __future__ import annotations

from dataclasses import replace

from planner.errors import Refused
from planner.expr import Scalar
from planner.logical import Filter, Logical
from rules.context import Context
from rules.query.exists_tests import simple_test
from rules.query.query_block import read_block
from rules.rule import rule
from rules.self_join.self_pairs import without_pairs


@rule(Filter)
def self_pairs(node: Filter, ctx: Context) -> Logical | None:
    """Replace EXISTS or IN over pairs of rows that differ by a comparison of each key's least and greatest value.

    A self-join makes every pair of rows with equal keys, the square of their number, although EXISTS and IN only
    ask whether there is one.  Two rows differ exactly where the least value of a key is not its greatest (TPC-DS
    query 95).
    """
    if node.clause != "WHERE":
        return None
    condition = tuple(_without(conjunct, ctx) if conjunct.plans else conjunct for conjunct in node.condition)
    return replace(node, condition=condition) if condition != node.condition else None


def _without(conjunct: Scalar, ctx: Context) -> Scalar:
    test = simple_test(conjunct)
    block = test and read_block(test.query)
    if not test or not block:
        return conjunct
    try:
        found = without_pairs(test.query, block.project.items if test.value else (), ctx)  # type: ignore[arg-type]
    except Refused as no:
        ctx.decline(f"the self-join stays, although only its keys are used: {no}", conjunct.place)
        return conjunct
    return conjunct.with_plans((found,)) if found else conjunct
