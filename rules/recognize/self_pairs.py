"""Keys that two rows have which differ, where only the key is asked for: ``x.k IN (SELECT a.k FROM t a, t b …)``."""

from __future__ import annotations

from dataclasses import replace

from planner.errors import NotCarried
from planner.expr import Scalar
from planner.logical import Filter, Logical
from planner.sql.names import Unresolved
from rules.query.exists_tests import read_test
from rules.query.moving import block_of
from rules.rule import Context, rule
from rules.self_join.self_pairs import without_pairs


@rule(Filter)
def self_pairs(node: Filter, ctx: Context) -> Logical | None:
    """Ask for the keys whose least and greatest value differ, where EXISTS or IN asks for pairs of rows that differ.

    A self-join makes a row for every pair, the square of the rows of a key, of which EXISTS and IN want to know whether
    there is one (TPC-DS 95).
    """
    if node.clause != "WHERE":
        return None
    condition = tuple(_without(conjunct, ctx) if conjunct.plans else conjunct for conjunct in node.condition)
    return replace(node, condition=condition) if condition != node.condition else None


def _without(conjunct: Scalar, ctx: Context) -> Scalar:
    test = read_test(conjunct)
    block = test and block_of(test.query)
    if not test or not block:
        return conjunct
    try:
        found = without_pairs(test.query, block.project.items if test.value else (), ctx)  # type: ignore[arg-type]
    except (Unresolved, NotCarried) as no:
        ctx.decline(f"pairs of rows are made where one key is asked for: {no}", conjunct.place)
        return conjunct
    return conjunct.with_plans((found,)) if found else conjunct
