"""A self-join that is gone, for Spark: the row once more as LATERAL columns, and its conditions in WHERE."""

from dataclasses import fields

from planner.logical import Derived, Filter
from planner.logical.self_join import SameRow, SameRowTest
from planner.physical.base import Rewriting
from rules.rule import Context, rule


@rule(SameRow, SameRowTest)
def lower_self_join_elimination(node: SameRow | SameRowTest, ctx: Context) -> Rewriting:
    """Leave the columns or the conditions to Spark: one reading is never slower than two and a join."""
    plain = Derived if isinstance(node, SameRow) else Filter
    same = plain(**{f.name: getattr(node, f.name) for f in fields(plain)})
    return Rewriting(same, node.label, node.said, node.output)
