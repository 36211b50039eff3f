"""The one reader of comparisons: which two operands a condition compares, and with which sign."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from planner.expr import Scalar

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
    """``left sign right``; the operands are without the parentheses around them."""

    left: exp.Expression
    sign: str
    right: exp.Expression

    @property
    def turned(self) -> Comparison:
        """The same, said the other way round."""
        return Comparison(self.right, TURNED.get(self.sign, self.sign), self.left)

    @property
    def operands(self) -> tuple[exp.Expression, exp.Expression]:
        """Both operands, as they stand."""
        return self.left, self.right

    @property
    def equal(self) -> bool:
        """Whether it is an equality, which NULL fulfils only with ``<=>``."""
        return self.sign in ("=", "<=>")

    @property
    def columns(self) -> bool:
        """Whether it compares two columns as they are."""
        return all(isinstance(x, exp.Column) and not isinstance(x.this, exp.Star) for x in self.operands)


def compared(condition: Scalar | exp.Expression) -> Comparison | None:
    """What a condition compares; None for any other, for one with a subquery in it, and for what only Spark reads."""
    if isinstance(condition, Scalar):
        known = None if condition.plans else condition.known
        return compared(known) if known else None
    tree = condition.unnest()
    sign = SIGNS.get(type(tree))
    return Comparison(tree.this.unnest(), sign, tree.expression.unnest()) if sign else None
