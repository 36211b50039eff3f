"""Reads the keys of a condition: a tree of AND, OR and comparisons becomes a key scheme.

    a.email = b.email OR a.phone = b.phone                  two branches, an equality each
    a.kind = 'e' AND a.v = b.email OR a.v = b.phone         a condition of one side guards the keys of its branch
    a.x = b.x OR b.x IS NULL                                NULL means any value
    (a.x = b.x) IS NOT FALSE                                the test of NOT IN
    startswith(a.path, b.prefix)                            the first bytes
    a.t BETWEEN b.s AND b.e OR a.u BETWEEN b.s AND b.e      bins of either band
    CASE WHEN b.k = 1 THEN a.x = b.x ELSE a.y = b.y END     branches, of which the first WHEN that holds decides

A branch without a comparison of both sides has one key for all rows that pass its conditions.  Where these are
conditions of one side, its rows are copied to ``_SPREAD`` keys, so that those of the other side are spread over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from sqlglot import exp

from dovetail.planner.band.linear import ConditionScope, Side, speculative
from dovetail.planner.conditions.compared import compared, flat
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, columns_in, sql, without_parentheses
from dovetail.planner.keys.alternatives import alternatives, conjunction
from dovetail.planner.keys.bands import looks_like_bounds, read_band
from dovetail.planner.keys.comparable import common_cast
from dovetail.planner.keys.elements import read_elements, tests_elements
from dovetail.planner.keys.key_set import Branch, KeyScheme, KeySet, Leveled, Sides
from dovetail.planner.keys.operands import key_value
from dovetail.planner.keys.prefixes import read_prefix, tests_prefix
from dovetail.planner.types.schema import SqlType
from dovetail.planner.types.typed import infer_type

_SPREAD = 32  # keys that stand for all values of a side
_MOST_BRANCHES = 8
_SIDES: tuple[Side, Side] = ("left", "right")


def read_keys(conjunct: Scalar, scope: ConditionScope) -> tuple[KeyScheme, ...]:
    """Return the keys of a conjunct; none if it is no OR, and no test of an array or a prefix.

    A band has keys in a branch of an OR; one that stands alone is a band join.  Where a branch has an equality as well,
    a second scheme has the keys of both.  Raises ``Refused`` for an OR of which one branch may hold for rows that share
    no key.
    """
    if conjunct.plans or not (tree := conjunct.known) or scope.side(tree) != "both":
        return ()
    branches = list(_branches(tree, scope))
    if branches == [without_parentheses(tree)]:
        several = _read_several(branches[0], scope)
        return (KeyScheme((conjunct,), (_times((KeySet(), KeySet()), several),)),) if several else ()
    found = _read_branches(branches, tree, scope)
    schemes = [KeyScheme((conjunct,), found)]
    if any(looks_like_bounds(flat(branch, exp.And)) for branch in branches):
        with suppress(Refused):
            both = _read_branches(branches, tree, scope, bands=True)
            schemes += [KeyScheme((conjunct,), both, with_bands=True)] if both != found else []
    return tuple(schemes)


def _read_branches(
    branches: list[exp.Expression], whole: exp.Expression, scope: ConditionScope, *, bands: bool = False
) -> tuple[Branch, ...]:
    """The branches of an OR with their keys; ``bands``: with those of bands beside an equality."""
    found = tuple(one for branch in branches for one in _read_branch(branch, whole, scope, bands=bands))
    if len(found) > _MOST_BRANCHES:
        raise Refused(f"it has {len(found)} branches, and each would copy every row")
    return found


def looks_like_keys(conjunct: Scalar) -> bool:
    """Whether a conjunct may have keys and is more than a comparison; cheap, and never looks anything up."""
    tree = None if conjunct.plans else conjunct.known
    if tree is None:
        return False
    tree = without_parentheses(tree)
    if found := alternatives(tree):
        branches = [(branch, _looks_like_keys(branch)) for branch in found]
        return any(keys for _, keys in branches) and all(keys or not _is_ordered(branch) for branch, keys in branches)
    return tests_elements(tree) or tests_prefix(tree) or or_null(tree) is not None


def _looks_like_keys(branch: exp.Expression) -> bool:
    """Whether a branch may have an equality or a band of both sides."""
    parts = list(flat(branch, exp.And))
    inner = (part for part in parts if isinstance(part, exp.Or))
    return (
        _has_equality(branch)
        or looks_like_bounds(parts)
        or any(all(map(_looks_like_keys, flat(part, exp.Or))) for part in inner)
    )


def _has_equality(tree: exp.Expression) -> bool:
    """Whether a branch may have an equality of two columns, or one with the elements of an array, or a prefix."""
    nodes = list(tree.find_all(exp.Predicate, exp.Anonymous))
    equalities = (node for node in nodes if (found := compared(node)) and found.equal)  # type: ignore[arg-type]
    return any(map(_compares_columns, equalities)) or any(tests_elements(node) or tests_prefix(node) for node in nodes)


def _read_several(tree: exp.Expression, scope: ConditionScope) -> Sides | Leveled | None:
    """The keys of a comparison of which a row has several keys."""
    return read_elements(tree, scope) or read_prefix(tree, scope)


def _is_ordered(tree: exp.Expression) -> bool:
    """Whether a branch compares columns by order."""
    return any(map(_compares_columns, tree.find_all(exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)))


def _compares_columns(tree: exp.Expr) -> bool:
    """Whether columns stand in more than one operand of an expression."""
    return sum(child.find(exp.Column) is not None for child in tree.iter_expressions()) > 1


def _branches(tree: exp.Expression, scope: ConditionScope) -> Iterator[exp.Expression]:
    """The branches of a disjunction, however it is written."""
    tree = without_parentheses(tree)
    if found := alternatives(tree):
        yield from _one_of(found, scope)
    elif operands := or_null(tree):
        both, tested = operands
        yield both
        for one in tested:
            yield exp.Is(this=one.copy(), expression=exp.Null())
    elif inner := _inner_or(tree, scope):
        rest = [part for part in flat(tree, exp.And) if part is not inner]
        for one in _one_of(list(flat(inner, exp.Or)), scope):
            yield from _branches(conjunction((*rest, one)), scope)
    else:
        yield tree


def _inner_or(tree: exp.Expression, scope: ConditionScope) -> exp.Expression | None:
    """The OR below an AND that nothing else gives keys to: ``a.k = 1 AND (a.x = b.x OR a.y = b.y)``."""
    parts = list(flat(tree, exp.And))
    if len(parts) == 1 or any(equated(part, scope) or tests_elements(part) for part in parts):
        return None
    inner = next((part for part in parts if isinstance(part, exp.Or) and scope.side(part) == "both"), None)
    return None if inner and looks_like_bounds(parts) and not _has_equality(inner) else inner


def _one_of(branches: list[exp.Expression], scope: ConditionScope) -> Iterator[exp.Expression]:
    """``a.x = b.y OR a.x = b.z`` as ``a.x IN (b.y, b.z)``; other branches as they are, with their own taken apart."""
    pairs = [equated(branch, scope) for branch in branches]
    if len(branches) > 1 and all(pairs):
        for n in (0, 1):
            ends = {scope.canonical(pair[n]): pair[n] for pair in pairs if pair}
            if len(ends) == 1 and not any(isinstance(end, exp.Tuple) for end in ends.values()):
                items = [pair[1 - n].copy() for pair in pairs if pair]
                yield exp.In(this=next(iter(ends.values())).copy(), expressions=items)
                return
    for branch in branches:
        yield from _branches(branch, scope)


def equated(tree: exp.Expression, scope: ConditionScope) -> tuple[exp.Expression, exp.Expression] | None:
    """The operands of an equality of both sides, that over the left side first; None for anything else."""
    found = compared(tree)
    return scope.order_by_side(*found.operands) if found and found.sign == "=" else None


def or_null(tree: exp.Expression) -> tuple[exp.Expression, tuple[exp.Expression, ...]] | None:
    """An equality that NULL satisfies as well, and the operands of which NULL does; None for anything else."""
    if isinstance(tree, exp.Not) and isinstance(is_ := without_parentheses(tree.this), exp.Is):
        inner = compared(is_.this)
        if inner and inner.sign == "=" and isinstance(is_.expression, exp.Boolean) and not is_.expression.this:
            return without_parentheses(is_.this), inner.operands
    found = compared(tree)
    for one, other in (found.operands, found.operands[::-1]) if found and found.sign == "=" else ():
        if isinstance(one, exp.Coalesce) and one.expressions[-1:] == [other]:
            value = exp.Coalesce(this=one.this.copy(), expressions=[e.copy() for e in one.expressions[:-1]])
            value = value if value.expressions else value.this
            return exp.EQ(this=value, expression=other.copy()), (value,)
    return None


def _read_branch(
    branch: exp.Expression, whole: exp.Expression, scope: ConditionScope, *, bands: bool
) -> Iterator[Branch]:
    """The keys of a branch: its equalities, at most one comparison by several keys, and its guards.

    Without an equality or such a comparison it has the keys of a band, with an equality if ``bands``.
    """
    sides: Sides = KeySet(), KeySet()
    several: Sides | Leveled | None = None
    guards: dict[Side, list[exp.Expression]] = {"left": [], "right": []}
    refused: Refused | None = None
    parts = list(flat(branch, exp.And))
    for part in parts:
        match side := scope.side(part):
            case "left" | "right":
                guards[side].append(speculative(part, scope))
            case "both":
                before = (Scalar(sql(guard)) for guard in (*guards["left"], *guards["right"]))
                inside = replace(scope, guards=(*scope.guards, *before))
                try:
                    if equal := _equality(part, inside):
                        sides = sides[0].times(equal[0]), sides[1].times(equal[1])
                    elif several is None:
                        several = _read_several(part, inside)
                except Refused as no:
                    refused = no
    found: tuple[tuple[Sides | Leveled | None, str], ...] = ()
    is_constant = several is None and sides[0].is_constant and sides[1].is_constant
    if is_constant or (bands and several is None):
        try:
            found = read_band(parts, scope)
        except Refused as no:
            refused = refused or no
    if not found:
        found = ((_of_guards(guards, whole, scope, refused) if is_constant else several, ""),)
    left, right = (keys.guarded(*map(_grouped, guards[side])) for keys, side in zip(sides, _SIDES, strict=True))
    for keys, condition in found:
        yield _times((left, right), keys, f"{condition} AND {_grouped(branch)}" if condition else sql(branch))


def _times(sides: Sides, several: Sides | Leveled | None, condition: str = "") -> Branch:
    """A branch with the product of some keys and those of a comparison."""
    if isinstance(several, Leveled):
        return Branch(sides, condition, several)
    return Branch((sides[0].times(several[0]), sides[1].times(several[1])) if several else sides, condition)


def _equality(tree: exp.Expression, scope: ConditionScope) -> Sides | None:
    """The keys of an equality of both sides; None for another comparison."""
    found = compared(tree)
    sides = scope.compare_sides(found) if found and found.equal else None
    if sides is None:
        return None
    types = tuple(infer_type(operand, scope.type_of) for operand in sides.operands)
    cast = common_cast(types, ansi=scope.ansi)
    values = [key_value(operand, cast, scope) for operand in sides.operands]
    left, right = (KeySet((value,), (value,) if sides.sign == "=" else ()) for value in values)
    return left, right


def _of_guards(
    guards: dict[Side, list[exp.Expression]], whole: exp.Expression, scope: ConditionScope, refused: Refused | None
) -> Sides:
    """The keys of a branch that compares nothing of both sides by equality; those of one side are spread."""
    guarded = [side for side in _SIDES if guards[side]]
    if not guarded or refused:
        raise refused or Refused("one of its branches has no equality and no band")
    if len(guarded) == 2:
        return KeySet(), KeySet()
    other: Side = "right" if guarded[0] == "left" else "left"
    spread = list(_hashable(whole, other, scope))
    if not spread:
        return KeySet(), KeySet()
    one = KeySet(elements=f"sequence(0L, {_SPREAD - 1}L)", distinct=True)
    rest = KeySet((f"pmod(xxhash64({', '.join(spread)}), {_SPREAD}L)",))
    return (one, rest) if guarded[0] == "left" else (rest, one)


def _hashable(whole: exp.Expression, side: Side, scope: ConditionScope) -> Iterator[str]:
    """The columns of a side in a condition whose values can be hashed, each once."""
    for column in dict.fromkeys(sql(column) for column in columns_in(whole) if scope.side(column) == side):
        types: Iterable[SqlType | None] = (scope.type_of(Scalar(column).tree),)
        try:
            common_cast(tuple(types), ansi=scope.ansi)
            yield column
        except Refused:
            continue


def _grouped(tree: exp.Expression) -> str:
    return f"({sql(tree)})" if isinstance(tree, exp.Or) else sql(tree)
