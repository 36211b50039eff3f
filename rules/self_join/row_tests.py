"""EXISTS and IN over one relation, as joins with it: ``EXISTS (SELECT 1 FROM t y WHERE y.id = x.id)``."""

from __future__ import annotations

from typing import NamedTuple

from planner.expr import Scalar
from planner.logical import Limit
from rules.query.exists_tests import Test, at_least_one, read_test
from rules.query.from_items import FromItem
from rules.query.moving import block_of, why_not_simple


class RowTest(NamedTuple):
    """EXISTS or IN over one relation: ``from_item`` is that, as if it were joined, and ``conjunct`` stands in WHERE."""

    conjunct: Scalar
    test: Test
    from_item: FromItem
    item: Scalar


def row_test(conjunct: Scalar, number: int) -> RowTest | None:
    """Read a conjunct of WHERE; None for one that is no EXISTS or IN, or whose subquery is more than a filter."""
    test = read_test(conjunct) if conjunct.plans else None
    block = test and block_of(test.query)
    if not test or not block or block.project.hint or len(block.project.items) != 1:
        return None
    if any(test.value or not (isinstance(more, Limit) and at_least_one(more)) for more in block.more):
        return None
    item = block.project.items[0]
    if item.plans or why_not_simple(item.tree):
        return None
    from_item = FromItem(number, block.tree, "anti" if test.negated else "semi", block.condition, 0, True)
    return RowTest(conjunct, test, from_item, item)
