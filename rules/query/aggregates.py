"""Aggregates in an expression: which of them a window can compute, and how."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql
from dovetail.planner.expr.aggregate_calls import aggregate_arguments
from dovetail.rules.query.decorrelation import check_deterministic

_AGGREGATES = (exp.Avg, exp.Sum, exp.Min, exp.Max, exp.Count)
_ARITHMETIC = (exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div)
_AROUND = (*_ARITHMETIC, exp.Literal, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Coalesce, exp.Null)


@dataclass(frozen=True)
class WindowColumn:
    """An expression of aggregates over the block's columns, and its name among the columns that are added.

    ``render`` prints it: given conditions that a row must meet to count, and what is to follow each aggregate.
    """

    name: str
    text: str

    def render(self, conditions: tuple[str, ...], over: str) -> str:
        """The expression; raises ``Unsupported`` when its aggregates cannot be found in the text."""
        text, at = "", 0
        for start, end in aggregate_arguments(self.text):
            text += self.text[at:start] + _argument(self.text[start:end].strip(), conditions) + ")" + over
            at = end + 1
        return text + self.text[at:]


def _argument(text: str, conditions: tuple[str, ...]) -> str:
    if not conditions:
        return text
    return f"CASE WHEN {' AND '.join(conditions)} THEN {'1' if text == '*' else text} END"


def check_aggregates(item: Scalar) -> None:
    """Raise ``Refused`` unless an expression is arithmetic over plain aggregates that a window can compute."""
    check_deterministic(item)
    found = _plain_aggregates(item.tree)
    if found == 0 or found != len(aggregate_arguments(item.text)):
        raise Refused(f"{item.shown} is more than arithmetic over min, max, sum, avg and count")


def _plain_aggregates(tree: exp.Expression) -> int:
    if isinstance(tree, _AGGREGATES):
        if tree.expressions or isinstance(tree.this, exp.Distinct) or tree.find(exp.Window, exp.Filter):
            raise Refused(f"{sql(tree)} is not an aggregate that a window takes")
        if tree.this.find(exp.AggFunc):
            raise Refused(f"{sql(tree)} holds an aggregate")
        return 1
    if not isinstance(tree, _AROUND):
        raise Refused(f"{sql(tree)} is more than arithmetic on aggregates")
    if isinstance(tree, exp.Div) and tree.expression.find(*_AGGREGATES) and not _null_of_nothing(tree.this):
        raise Refused(f"{sql(tree)} could divide by zero if there are no rows")
    return sum(map(_plain_aggregates, tree.iter_expressions()))


def _null_of_nothing(tree: exp.Expression) -> bool:
    """Whether an expression of aggregates is NULL where there are no rows."""
    return tree.find(*_AGGREGATES) is not None and tree.find(exp.Count, exp.Coalesce) is None
