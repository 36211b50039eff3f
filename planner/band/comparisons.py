"""Parses the order comparisons of a condition, before any name is resolved."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp

from dovetail.planner.band.linear import constant
from dovetail.planner.conditions.compared import flat, null_test
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr import Scalar, sql, without_parentheses

_EQUALITY = re.compile(r"(?<![<>!])=|<=>|(?i:\bequal_null\b)")
_BY_ORDER = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_OF_SUMS = (
    *(exp.Add, exp.SafeAdd, exp.Sub, exp.SafeSubtract, exp.Mul, exp.Div, exp.IntDiv, exp.Neg, exp.Abs),
    *(exp.DateDiff, exp.TimestampDiff, exp.Floor, exp.Ceil, exp.Round, exp.Cast),
)


class EndlessComparison(NamedTuple):
    """``p.x < i.hi OR i.hi IS NULL``, ``p.x < i.hi OR i.is_current``: a comparison, and what passes as well.

    ``tested``: expressions of which NULL does.  ``others``: further conditions, each of one side.
    """

    comparison: exp.Expression
    tested: tuple[exp.Expression, ...]
    others: tuple[exp.Expression, ...] = ()


def orders(conjunct: Scalar) -> bool:
    """Whether a conjunct may compare by order, by its text alone."""
    return any(mark in conjunct.text for mark in "<>") or "between" in conjunct.text.lower()


def looks_like_band(conjunct: Scalar) -> bool:
    """Whether a conjunct compares by order and so may belong to a band; cheap, and never looks anything up."""
    if not (orders(conjunct) or may_equal(conjunct) or " in" in conjunct.text.lower()):
        return False
    try:
        compares = any(True for _ in comparisons(conjunct.tree)) or endless_comparison(conjunct.tree)
        return bool(compares) and len(conjunct.columns) > 1
    except Unsupported:
        return False


def may_equal(conjunct: Scalar) -> bool:
    """Whether a conjunct may hold an equality, by its text alone; so it may where it holds a subquery."""
    return bool(conjunct.plans or _EQUALITY.search(conjunct.text))


def is_or_of_comparisons(conjunct: Scalar) -> bool:
    """Whether a conjunct is an OR that compares by order, which no bins can follow."""
    if "or" not in conjunct.text.lower() or conjunct.plans:
        return False
    try:
        tree = without_parentheses(conjunct.tree)
        return isinstance(tree, exp.Or) and bool(tree.find(exp.Between, *_BY_ORDER))
    except Unsupported:
        return False


def endless_comparison(tree: exp.Expression) -> EndlessComparison | None:
    """A comparison by order beside tests for NULL and conditions of one side, joined by OR; None for anything else."""
    if not isinstance(without_parentheses(tree), exp.Or):
        return None
    compared, tested, others = [], [], []
    for disjunct in flat(tree, exp.Or):
        if (null := null_test(disjunct)) is not None:
            tested.append(null)
        elif not may_read_both_sides(disjunct):
            others.append(disjunct)
        elif isinstance(disjunct, _BY_ORDER):
            compared.append(disjunct)
        else:
            return None
    return EndlessComparison(compared[0], tuple(tested), tuple(others)) if len(compared) == 1 else None


def may_read_both_sides(*trees: exp.Expr) -> bool:
    """Whether columns may be of both sides, as far as their names show."""
    columns = {sql(column): column for tree in trees for column in tree.find_all(exp.Column)}
    relations = {tuple(part.name for part in column.parts[:-1]) for column in columns.values()}
    return len(relations) > 1 or (() in relations and len(columns) > 1)


def names_relations(conjunct: Scalar) -> bool:
    """Whether columns of a conjunct have the names of several relations before them."""
    return len({column.parts[:-1] for column in conjunct.columns} - {()}) > 1


def without_default(
    small: exp.Expression, large: exp.Expression
) -> tuple[exp.Expression, exp.Expression, EndlessComparison | None]:
    """``p ≤ coalesce(hi, p)`` as ``p ≤ hi OR hi IS NULL``, and the same for a lower end; anything else as it is."""
    for operand, other in ((large, small), (small, large)):
        call = without_parentheses(operand)
        if isinstance(call, exp.Coalesce) and call.expressions == [without_parentheses(other)]:
            small, large = (call.this if operand is one else one for one in (small, large))
            return small, large, EndlessComparison(exp.LTE(this=small.copy(), expression=large.copy()), (call.this,))
    return small, large, None


def from_extremes(small: exp.Expression, large: exp.Expression) -> tuple[EndlessComparison, ...]:
    """What follows from ``greatest(a, b) ≤ least(c, d)``: ``a ≤ c OR a IS NULL OR c IS NULL``, and so on.

    Both functions leave out NULL.  Empty where there is neither of them.
    """
    smalls, larges = _arguments(small, exp.Greatest), _arguments(large, exp.Least)
    if len(smalls) == len(larges) == 1:
        return ()
    return tuple(
        EndlessComparison(
            exp.LTE(this=a.copy(), expression=b.copy()), (a,) * (len(smalls) > 1) + (b,) * (len(larges) > 1)
        )
        for a in smalls
        for b in larges
    )


def _arguments(tree: exp.Expression, function: type[exp.Func]) -> list[exp.Expression]:
    call = without_parentheses(tree)
    return [call.this, *call.expressions] if isinstance(call, function) else [tree]


def comparisons(tree: exp.Expression) -> Iterator[tuple[exp.Expression, exp.Expression]]:
    """Yield every ``small ≤ large`` (or <) of a conjunct, in order.

    ``a.x - b.y = 7`` and ``a.x - b.y IN (1, 7)`` lie between constants: Spark joins on neither.
    """
    match tree:
        case exp.Paren():
            yield from comparisons(tree.this)
        case exp.Between():
            yield tree.args["low"], tree.this
            yield tree.this, tree.args["high"]
        case exp.And():
            yield from comparisons(tree.this)
            yield from comparisons(tree.expression)
        case exp.EQ() | exp.In() if found := _values(tree):
            value, constants = found
            yield min(constants, key=constant), value  # type: ignore[arg-type]
            yield from without_abs(value, max(constants, key=constant))  # type: ignore[arg-type]
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            small, large = tree.this, tree.expression
            if isinstance(tree, exp.GT | exp.GTE):
                small, large = large, small
            yield from without_abs(small, large)


def _values(tree: exp.EQ | exp.In) -> tuple[exp.Expression, list[exp.Expression]] | None:
    """What may be over both sides, and the numbers that it equals one of; None for any other condition."""
    if isinstance(tree, exp.In):
        value, numbers = tree.this, tree.expressions
    else:
        value, other = tree.this, tree.expression
        value, numbers = (other, [value]) if constant(value) is not None else (value, [other])
    if not numbers or any(constant(number) is None for number in numbers):
        return None
    is_sum = isinstance(without_parentheses(value), _OF_SUMS) and may_read_both_sides(value)
    return (value, numbers) if is_sum else None


def without_abs(small: exp.Expression, large: exp.Expression) -> tuple[tuple[exp.Expression, exp.Expression], ...]:
    """``abs(e) ≤ c`` as ``e ≤ c`` and ``-c ≤ e``; any other ``small ≤ large`` as it is."""
    inner = without_parentheses(small)
    if isinstance(inner, exp.Abs):
        return (inner.this, large), (exp.Neg(this=exp.paren(large.copy())), inner.this)
    return ((small, large),)
