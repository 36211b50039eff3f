"""EXISTS and IN conjuncts whose operand is simple enough for a join condition."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.expr import Scalar
from dovetail.planner.expr.subqueries import SubqueryTest, subquery_test
from dovetail.rules.query.decorrelation import why_not_rows


def simple_test(conjunct: Scalar) -> SubqueryTest | None:
    """Return a conjunct's EXISTS or IN; None also if the value before IN is more than an expression of one row."""
    test = subquery_test(conjunct)
    if test is None or test.value is None:
        return test
    known = all(value.known is not None and not isinstance(value.known, exp.Alias) for value in test.values)
    return test if known and not why_not_rows(test.values) else None
