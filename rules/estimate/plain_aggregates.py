"""Writes what people write around counts and sums as plain ones, since a sample knows no more of them.

    round(avg(x), 2)  CAST(sum(x) AS DECIMAL(20, 2))  coalesce(sum(x), 0)      the aggregate alone
    sum(x) / nullif(count(*), 0)  try_divide(sum(x), count(*))                 sum(x) / count(*)
    count_if(x > 3)  count(*) FILTER (WHERE x > 3)                             count(CASE WHEN x > 3 THEN 1 END)

An interval is then of the value before it is rounded.
"""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.expr import Scalar, sql

_TRIED = {"try_sum": exp.Sum, "try_avg": exp.Avg}


def plain_aggregates(expression: Scalar) -> Scalar:
    """An expression with plain aggregates in the place of these; itself where it has none of them."""
    tree: exp.Expr = expression.tree
    while (new := tree.transform(_plain)) != tree:
        tree = new
    return expression if tree == expression.tree else Scalar(sql(tree), expression.plans, expression.place)


def _plain(tree: exp.Expr) -> exp.Expr:
    match tree:
        case exp.Filter(this=exp.Count() | exp.Sum() | exp.Avg() as call) if not isinstance(call.this, exp.Distinct):
            return _where(call, tree.expression.this)
        case exp.AnonymousAggFunc(expressions=[argument]) if tree.name.lower() == "count_if":
            return _where(exp.Count(this=exp.Star()), argument)
        case exp.AnonymousAggFunc(expressions=[argument]) if kind := _TRIED.get(tree.name.lower()):
            return kind(this=argument)
        case exp.SafeDivide() if tree.find(exp.AggFunc):  # not within an aggregate, where a divisor may be zero
            return exp.Div(this=tree.this, expression=tree.expression)
        case exp.Coalesce(expressions=[exp.Literal(this="0")]) | exp.Nullif(expression=exp.Literal(this="0")):
            return _inner(tree)
        case exp.Round() | exp.Cast():
            return _inner(tree)
    return tree


def _inner(tree: exp.Expr) -> exp.Expr:
    """What a call is of, where that has an aggregate."""
    return tree.this if tree.this.find(exp.AggFunc) and not tree.find_ancestor(exp.AggFunc) else tree


def _where(call: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """An aggregate of the rows for which a condition holds."""
    value = exp.Literal.number(1) if isinstance(call.this, exp.Star) else call.this
    case = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
    return type(call)(this=case)
