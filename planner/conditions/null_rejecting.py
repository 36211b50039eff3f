"""Finds the columns whose NULL makes a condition not TRUE.

A condition in WHERE that rejects the NULLs of a relation drops the rows that an outer join adds without a match in it
(Galindo-Legaria and Rosenthal, "Outerjoin Simplification and Reordering for Query Optimization", TODS 1997).
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dovetail.planner.expr import is_reference

_COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ)
_STRICT = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Paren, exp.Cast, exp.Abs)


def null_rejected_columns(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The columns of a condition that is not TRUE where one of them is NULL; those of comparisons only."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, _COMPARISONS):
        operands = [condition.this, condition.expression]
    elif isinstance(condition, exp.Between) and not condition.args.get("symmetric"):
        operands = [condition.this, condition.args["low"], condition.args["high"]]
    else:
        return
    for operand in operands:
        yield from _strict_columns(operand)


def _strict_columns(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The columns of an expression that is NULL where one of them is."""
    if is_reference(tree):
        yield tree
    elif isinstance(tree, _STRICT):
        for operand in (tree.this, tree.args.get("expression")):
            if isinstance(operand, exp.Expr):
                yield from _strict_columns(operand)
