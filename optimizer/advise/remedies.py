"""What to do about each kind of reason why a rule declined; ``docs/troubleshooting.md`` has the details."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.errors import ReasonCode
from dovetail.planner.expr import Scalar, without_parentheses
from dovetail.rules.analysis.nested_loops import NestedLoop

REMEDIES: dict[ReasonCode, str] = {
    "no_equality": "Look for a missing equality in ON. If the condition really has none, nothing helps.",
    "one_sided": "Add the other bound, or keep only the nearest row of each (docs/nearest.md).",
    "or_condition": "Give each branch of the OR an equality or a band of the two sides, or move what all branches "
    "share in front of it (docs/key-joins.md).",
    "correlated": "Write the subquery as a join.",
    "after_outer_join": "Write an inner join, if rows without a match are not wanted: WHERE drops them.",
    "may_raise": "Use the TRY form of the expression: TRY_CAST, try_divide.",
    "no_key": "Declare a key on the table, if it is unique: --key TABLE=COLUMNS, opt.declare_key.",
    "using": "Write ON instead of USING.",
    "few_rows": "Nothing: Spark's own join is as fast on tables of this size.",
    "unique_match": "Nothing: each row matches at most one.",
    "equality_join": "Nothing: Spark joins on the equality.",
    "clause_above_join": "Maintain the query as a materialized view: opt.materialize.",
}


def remedy_of(code: ReasonCode | None) -> str:
    """The advice for a kind of reason; empty if there is none."""
    return REMEDIES.get(code, "") if code else ""


def has_or(condition: str) -> bool:
    """Whether a condition is an OR, or has one whose branches all have an equality: each can be a hash join."""
    tree = Scalar(condition).known
    if not isinstance(tree, exp.And):
        return tree is not None and isinstance(without_parentheses(tree), exp.Or)
    conjuncts = map(without_parentheses, tree.flatten())
    return any(isinstance(one, exp.Or) and all(b.find(exp.EQ) for b in one.flatten()) for one in conjuncts)


def loop_remedy(loop: NestedLoop) -> str:
    """The advice for a nested loop of which no rule has a reason."""
    if not loop.condition:
        return "Add the condition that joins the two sides; a cross join returns every pair."
    if has_or(loop.condition):
        return REMEDIES["or_condition"]
    return "Add an equality, or bounds on both sides of a value (docs/band-joins.md)."
