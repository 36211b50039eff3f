"""Parses comparisons: the two operands of a condition and the operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp

from dovetail.planner.expr import Scalar, without_parentheses

SIGNS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Comparison(NamedTuple):
    """``left sign right``; the operands have no outer parentheses."""

    left: exp.Expression
    sign: str
    right: exp.Expression

    @property
    def turned(self) -> Comparison:
        """The same comparison with swapped operands."""
        return Comparison(self.right, TURNED.get(self.sign, self.sign), self.left)

    @property
    def operands(self) -> tuple[exp.Expression, exp.Expression]:
        """Both operands, as written."""
        return self.left, self.right

    @property
    def equal(self) -> bool:
        """Whether it is an equality; NULL satisfies only ``<=>``."""
        return self.sign in ("=", "<=>")

    @property
    def by_order(self) -> bool:
        """Whether it compares which operand is less."""
        return self.sign in TURNED

    @property
    def columns(self) -> bool:
        """Whether it compares two plain columns."""
        return all(isinstance(x, exp.Column) and not isinstance(x.this, exp.Star) for x in self.operands)


def flat(tree: exp.Expression, kind: type[exp.Connector]) -> Iterator[exp.Expression]:
    """The operands of nested ANDs or ORs, without parentheses."""
    tree = without_parentheses(tree)
    if isinstance(tree, kind):
        yield from flat(tree.this, kind)
        yield from flat(tree.expression, kind)
    else:
        yield tree


def null_test(tree: exp.Expression) -> exp.Expression | None:
    """What ``x IS NULL`` or ``isnull(x)`` tests; None for any other condition."""
    match tree:
        case exp.Is(args={"expression": exp.Null()}):
            return without_parentheses(tree.this)
        case exp.Anonymous(expressions=[tested]) if tree.name.lower() == "isnull":
            return without_parentheses(tested)
    return None


def compared(condition: Scalar | exp.Expression) -> Comparison | None:
    """Parse a comparison; None for other conditions, for subqueries, and for SQL that only Spark can parse."""
    if isinstance(condition, Scalar):
        known = None if condition.plans else condition.known
        return compared(known) if known else None
    tree = condition.unnest()
    if isinstance(tree, exp.Not) and isinstance(inner := tree.this.unnest(), exp.NEQ):
        return Comparison(inner.this.unnest(), "=", inner.expression.unnest())
    if isinstance(tree, exp.Anonymous) and tree.name.lower() == "equal_null" and len(tree.expressions) == 2:
        return Comparison(tree.expressions[0].unnest(), "<=>", tree.expressions[1].unnest())
    sign = SIGNS.get(type(tree))
    return Comparison(tree.this.unnest(), sign, tree.expression.unnest()) if sign else None
