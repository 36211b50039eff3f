"""EXISTS and IN conjuncts whose operand is simple enough for a join condition."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.expr import Scalar
from dovetail.planner.expr.subqueries import SubqueryTest, subquery_test
from dovetail.rules.query.decorrelation import why_not_simple


def simple_test(conjunct: Scalar) -> SubqueryTest | None:
    """Return a conjunct's EXISTS or IN; None also if the value before IN is more than columns and arithmetic."""
    test = subquery_test(conjunct)
    if test is None or test.value is None:
        return test
    trees = [value.known for value in test.values]
    return test if all(tree is not None and _is_simple(tree) for tree in trees) else None


def _is_simple(tree: exp.Expression) -> bool:
    return not isinstance(tree, exp.Alias) and not why_not_simple(tree)
