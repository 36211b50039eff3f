"""Aggregates in an expression: which ones a window can say as well, and how."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from planner.expr import Scalar, sql
from planner.expr.tokens import tokenize
from planner.sql.names import Unresolved
from rules.query.moving import check_deterministic

_CALLS = ("AVG", "SUM", "MIN", "MAX", "COUNT")
_AGGREGATES = (exp.Avg, exp.Sum, exp.Min, exp.Max, exp.Count)
_ARITHMETIC = (exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div)
_AROUND = (*_ARITHMETIC, exp.Literal, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Coalesce, exp.Null)


@dataclass(frozen=True)
class WindowColumn:
    """An expression of aggregates over the block's columns, and its name among the columns that are added.

    ``said`` writes it: given conditions that a row must meet to count, and what is to follow each aggregate.
    """

    name: str
    text: str

    def said(self, conditions: tuple[str, ...], over: str) -> str:
        """The expression; raises ``Unsupported`` when its aggregates cannot be found in the text."""
        t = tokenize(self.text)
        text, at = "", 0
        for i, close in aggregate_positions(self.text):
            text += self.text[at : t[i + 1].end] + _argument(t.slice(i + 2, close), conditions) + ")" + over
            at = t[close].end
        return text + self.text[at:]


def aggregate_positions(text: str) -> list[tuple[int, int]]:
    """Where the aggregates of an expression stand: the token that names each, and the one of its closing bracket."""
    t = tokenize(text)
    return [
        (i, t.match[i + 1])
        for i in range(len(t) - 1)
        if t[i].word in _CALLS and t[i + 1].word == "(" and (i == 0 or t[i - 1].word != ".")
    ]


def _argument(text: str, conditions: tuple[str, ...]) -> str:
    if not conditions:
        return text
    return f"CASE WHEN {' AND '.join(conditions)} THEN {'1' if text.strip() == '*' else text} END"


def check_aggregates(item: Scalar) -> None:
    """Raise ``Unresolved`` unless an expression is arithmetic over plain aggregates, each of which a window can say."""
    check_deterministic(item)
    found = _plain_aggregates(item.tree)
    if found == 0 or found != len(aggregate_positions(item.text)):
        raise Unresolved(f"{item.shown} is more than arithmetic over min, max, sum, avg and count")


def _plain_aggregates(tree: exp.Expression) -> int:
    if isinstance(tree, _AGGREGATES):
        if tree.expressions or isinstance(tree.this, exp.Distinct) or tree.find(exp.Window, exp.Filter):
            raise Unresolved(f"{sql(tree)} is not an aggregate that a window takes")
        if tree.this.find(exp.AggFunc):
            raise Unresolved(f"{sql(tree)} holds an aggregate")
        return 1
    if not isinstance(tree, _AROUND):
        raise Unresolved(f"{sql(tree)} stands around an aggregate")
    if isinstance(tree, exp.Div) and tree.expression.find(*_AGGREGATES) and not _null_of_nothing(tree.this):
        raise Unresolved(f"{sql(tree)} could divide by zero where no row counts")
    return sum(map(_plain_aggregates, tree.iter_expressions()))


def _null_of_nothing(tree: exp.Expression) -> bool:
    """Whether an expression of aggregates is NULL where there are no rows."""
    return tree.find(*_AGGREGATES) is not None and tree.find(exp.Count, exp.Coalesce) is None


def without_alias(item: Scalar) -> Scalar:
    """An item of a select list without the name it gets."""
    if not isinstance(item.tree, exp.Alias):
        return item
    t = tokenize(item.text)
    return replace(item, text=t.slice(0, len(t) - (2 if t.word(len(t) - 2) == "AS" else 1)))
