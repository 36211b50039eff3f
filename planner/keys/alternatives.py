"""The conditions of which one holds wherever a condition does: the branches of an OR, of a CASE and of an IF.

    a.x = b.x OR a.y = b.y                                          a.x = b.x; a.y = b.y
    CASE WHEN b.k THEN a.x = b.x ELSE a.y = b.y END                 b.k AND a.x = b.x; NOT (b.k) IS TRUE AND a.y = b.y
    CASE WHEN a.x = b.x THEN 1 WHEN a.y = b.y THEN 1 END = 1        a.x = b.x; NOT (a.x = b.x) IS TRUE AND a.y = b.y
    CASE WHEN a.x = b.x THEN 5 WHEN a.y = b.y THEN 2 END >= 2       the same
    a.x = CASE WHEN b.x = '*' THEN a.x ELSE b.x END                 b.x = '*'; NOT (b.x = '*') IS TRUE AND a.x = b.x
    (a.x, a.y) IN ((b.x, b.y), (b.y, b.x))                          (a.x, a.y) = (b.x, b.y); (a.x, a.y) = (b.y, b.x)

A branch of CASE repeats that no WHEN before it holds: it is not computed for other rows in the CASE either.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from dovetail.planner.conditions.compared import compared, flat
from dovetail.planner.expr import without_parentheses

Choice = tuple[exp.Expression | None, exp.Expression]
"""A condition, None of ELSE, and the value where it is the first that holds."""
_SIGNS: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
}


def conjunction(parts: Iterable[exp.Expression]) -> exp.Expression:
    """Conditions joined by AND."""
    return exp.and_(*(part.copy() for part in parts), copy=False)  # type: ignore[return-value]


def alternatives(tree: exp.Expression) -> list[exp.Expression]:
    """The branches of an OR, a CASE or an IF; none of another condition, or of a CASE that never holds."""
    tree = without_parentheses(tree)
    if isinstance(tree, exp.Or):
        return [branch for branch in flat(tree, exp.Or) if not _never_holds(branch)]
    if isinstance(tree, exp.In) and isinstance(tree.this, exp.Tuple):
        return [exp.EQ(this=tree.this.copy(), expression=one.copy()) for one in tree.expressions]
    if cases := _scores(tree):
        return list(_branches(cases))
    found = compared(tree)
    for one, other in (found.operands, found.operands[::-1]) if found and found.sign == "=" else ():
        cases = choices(one)
        literal = isinstance(other, exp.Literal) and all(isinstance(value, exp.Literal) for _, value in cases)
        if literal or any(value == other for _, value in cases):
            return list(_branches((when, _equality(value, other)) for when, value in cases))
    return list(_branches(choices(tree)))


def choices(tree: exp.Expression) -> list[Choice]:
    """The conditions and values of a CASE or an IF, without ELSE NULL; none of anything else."""
    tree = without_parentheses(tree)
    if isinstance(tree, exp.If):
        found = [(tree.this, tree.args["true"]), (None, tree.args.get("false"))]
    elif isinstance(tree, exp.Case):
        of = tree.this
        whens = ((exp.EQ(this=of.copy(), expression=i.this.copy()) if of else i.this, i) for i in tree.args["ifs"])
        found = [*((when, i.args["true"]) for when, i in whens), (None, tree.args.get("default"))]
    else:
        return []
    values = [(when, value and without_parentheses(value)) for when, value in found]
    return [(when, value) for when, value in values if value is not None and (when or not isinstance(value, exp.Null))]


def _never_holds(tree: exp.Expression) -> bool:
    """Whether a branch is FALSE, NULL or a comparison like 1 = 0, as programs write them."""
    tree = without_parentheses(tree)
    if isinstance(tree, exp.EQ):
        return not _may_hold(exp.EQ, tree.this, tree.expression)
    return isinstance(tree, exp.Null) or (isinstance(tree, exp.Boolean) and not tree.this)


def _scores(tree: exp.Expression) -> list[Choice]:
    """The conditions of a CASE of constants that is compared, and whether the comparison may hold for each."""
    sign: type[exp.Expr] = type(tree)
    case, others = tree.this, [tree.args.get("expression")]
    if isinstance(tree, exp.Not) and isinstance(case, exp.Is) and isinstance(case.expression, exp.Null):
        sign, case, others = exp.Is, case.this, []
    elif isinstance(tree, exp.In):
        sign, others = exp.EQ, tree.expressions
    elif sign not in _SIGNS or sign is exp.EQ:
        return []
    cases = choices(case) if isinstance(case, exp.Expression) else []
    if not all(_is_constant(one) for one in (*others, *(value for _, value in cases))):
        return []
    return [(when, exp.Boolean(this=_any_holds(sign, value, others))) for when, value in cases]


def _any_holds(sign: type[exp.Expr], value: exp.Expression, others: list[Any]) -> bool:
    if isinstance(value, exp.Null):
        return False
    return sign is exp.Is or any(_may_hold(sign, value, other) for other in others)


def _is_constant(tree: exp.Expression | None) -> bool:
    return isinstance(tree, exp.Literal | exp.Null | exp.Boolean) or (
        isinstance(tree, exp.Neg) and isinstance(tree.this, exp.Literal)
    )


def _may_hold(sign: type[exp.Expr], one: exp.Expression, other: exp.Expression) -> bool:
    """Whether a comparison may hold: False only where both are numbers for which it does not, or where x <> x."""
    numbers = [_number(tree) for tree in (one, other)]
    if None not in numbers:
        return _SIGNS[sign](*numbers)
    return not (sign is exp.NEQ and one == other)


def _number(tree: exp.Expression) -> Decimal | None:
    tree = without_parentheses(tree)
    if isinstance(tree, exp.Neg):
        found = _number(tree.this)
        return None if found is None else -found
    try:
        return Decimal(tree.name) if isinstance(tree, exp.Literal) and not tree.is_string else None
    except InvalidOperation:
        return None


def _equality(one: exp.Expression, other: exp.Expression) -> exp.Expression:
    """What holds where two values are equal: TRUE if they are alike, and FALSE only if they certainly differ.

    Texts may be equal by a collation, and a text may equal a number.
    """
    if not (isinstance(one, exp.Literal) and isinstance(other, exp.Literal)):
        return exp.Boolean(this=True) if one == other else exp.EQ(this=other.copy(), expression=one.copy())
    if one.is_int and other.is_int:
        return exp.Boolean(this=int(one.name) == int(other.name))
    texts = [literal.name for literal in (one, other) if literal.is_string and literal.name.isascii()]
    return exp.Boolean(this=len(texts) < 2 or len({text.strip().lower() for text in texts}) == 1)


def _branches(cases: Iterable[Choice]) -> Iterator[exp.Expression]:
    before: list[exp.Expression] = []
    for when, value in cases:
        holds = isinstance(value, exp.Boolean) and value.this
        parts = [*before, *([when] if when else []), *([] if holds else [value])]
        if parts and not isinstance(value, exp.Null) and (holds or not isinstance(value, exp.Boolean)):
            yield conjunction(parts)
        if when:
            before.append(exp.Not(this=exp.Is(this=exp.paren(when.copy()), expression=exp.Boolean(this=True))))
