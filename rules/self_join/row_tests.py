"""Reads EXISTS and IN over one relation as joins with it: ``EXISTS (SELECT 1 FROM t y WHERE y.id = x.id)``."""

from __future__ import annotations

from typing import NamedTuple

from dovetail.planner.expr import Scalar
from dovetail.planner.expr.subqueries import SubqueryTest
from dovetail.planner.logical import Limit
from dovetail.rules.query.decorrelation import why_not_simple
from dovetail.rules.query.exists_tests import simple_test
from dovetail.rules.query.from_items import FromItem
from dovetail.rules.query.query_block import read_block


class RowTest(NamedTuple):
    """EXISTS or IN over one relation: ``from_item`` is the relation as if joined, ``conjunct`` is in WHERE."""

    conjunct: Scalar
    test: SubqueryTest
    from_item: FromItem
    item: Scalar


def row_test(conjunct: Scalar, number: int) -> RowTest | None:
    """Read a conjunct of WHERE; None for one that is no EXISTS or IN, or whose subquery is more than a filter."""
    test = simple_test(conjunct) if conjunct.plans else None
    block = test and read_block(test.query)
    if not test or not block or block.project.hint or len(block.project.items) != 1:
        return None
    if any(test.value or not (isinstance(clause, Limit) and clause.keeps_a_row) for clause in block.clauses):
        return None
    item = block.project.items[0]
    if item.plans or why_not_simple(item.tree):
        return None
    from_item = FromItem(number, block.tree, "anti" if test.negated else "semi", block.condition, 0, True)
    return RowTest(conjunct, test, from_item, item)
