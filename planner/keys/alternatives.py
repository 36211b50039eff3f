"""The conditions of which one holds wherever a condition does: the branches of an OR, of a CASE and of an IF.

    a.x = b.x OR a.y = b.y                                          a.x = b.x; a.y = b.y
    CASE WHEN b.k THEN a.x = b.x ELSE a.y = b.y END                 b.k AND a.x = b.x; NOT (b.k) IS TRUE AND a.y = b.y
    CASE WHEN a.x = b.x THEN 1 WHEN a.y = b.y THEN 1 END = 1        a.x = b.x; NOT (a.x = b.x) IS TRUE AND a.y = b.y
    a.x = CASE WHEN b.x = '*' THEN a.x ELSE b.x END                 b.x = '*'; NOT (b.x = '*') IS TRUE AND a.x = b.x

A branch of CASE repeats that no WHEN before it holds: it is not computed for other rows in the CASE either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from dovetail.planner.conditions.compared import compared, flat
from dovetail.planner.expr import without_parentheses

Choice = tuple[exp.Expression | None, exp.Expression]
"""A condition, None of ELSE, and the value where it is the first that holds."""


def conjunction(parts: Iterable[exp.Expression]) -> exp.Expression:
    """Conditions joined by AND."""
    return exp.and_(*(part.copy() for part in parts), copy=False)  # type: ignore[return-value]


def alternatives(tree: exp.Expression) -> list[exp.Expression]:
    """The branches of an OR, a CASE or an IF; none of another condition, or of a CASE that never holds."""
    tree = without_parentheses(tree)
    if isinstance(tree, exp.Or):
        return list(flat(tree, exp.Or))
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
