"""Keys of several equalities that NULL satisfies as well: price lists whose NULL means any value, NOT IN over columns.

    (a.x = b.x OR b.x IS NULL) AND (a.y = b.y OR b.y IS NULL)          (a.x, a.y) NOT IN (SELECT b.x, b.y …)

    mask    keys of a row of a    keys of a row of b without x, of mask 1
    0       (0, x, y)
    1       (1, y)                (1, y)
    2       (2, x)
    3       (3)

A mask is the set of columns that are NULL.  A row has keys with its own mask and each mask that a row of the other side
may have, and with the values of the columns that are in neither.  So a pair shares the key with both its masks.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations
from typing import NamedTuple

from sqlglot import exp

from dovetail.planner.band.linear import ConditionScope, Side
from dovetail.planner.conditions.compared import flat, null_test
from dovetail.planner.expr import Scalar, without_parentheses
from dovetail.planner.keys.comparable import common_cast
from dovetail.planner.keys.key_set import ELEMENT, Branch, KeyScheme, KeySet, Sides
from dovetail.planner.keys.operands import cast_to, key_value
from dovetail.planner.keys.read_keys import equated, or_null
from dovetail.planner.types.typed import infer_type

_MOST_COLUMNS = 3  # each doubles the keys of a row


class _Column(NamedTuple):
    """The operands of an equality over the left and the right side, and the sides whose NULL satisfies it as well."""

    operands: tuple[exp.Expression, exp.Expression]
    nulls: frozenset[Side]


def read_masks(conjuncts: Iterable[Scalar], scope: ConditionScope) -> KeyScheme | None:
    """Return the keys of several equalities that NULL satisfies; None if there are not two.  Raises ``Refused``."""
    read = ((conjunct, _read(conjunct, scope)) for conjunct in conjuncts)
    found = [(conjunct, column) for conjunct, column in read if column][:_MOST_COLUMNS]
    if len(found) < 2:
        return None
    columns = [column for _, column in found]
    return KeyScheme(tuple(conjunct for conjunct, _ in found), (Branch(_key_sets(columns, scope)),))


def _read(conjunct: Scalar, scope: ConditionScope) -> _Column | None:
    """Read ``x = y OR y IS NULL``, ``(x = y) IS NOT FALSE`` or ``x = coalesce(y, x)``."""
    if conjunct.plans or not (tree := conjunct.known):
        return None
    tree = without_parentheses(tree)
    if found := or_null(tree):
        equality, tested = found
    else:
        parts = list(flat(tree, exp.Or))
        tested = tuple(null for part in parts if (null := null_test(part)))
        others = [part for part in parts if not null_test(part)]
        if not tested or len(others) != 1:
            return None
        (equality,) = others
    operands = equated(equality, scope)
    if operands is None:
        return None
    sides: dict[str, Side] = {scope.canonical(operands[0]): "left", scope.canonical(operands[1]): "right"}
    names = [scope.canonical(one) for one in tested]
    return _Column(operands, frozenset(sides[name] for name in names)) if sides.keys() >= set(names) else None


def _key_sets(columns: list[_Column], scope: ConditionScope) -> Sides:
    casts = [
        common_cast(tuple(infer_type(operand, scope.type_of) for operand in column.operands), ansi=scope.ansi)
        for column in columns
    ]
    left, right = (_key_set(columns, casts, side, scope) for side in ("left", "right"))
    return left, right


def _key_set(columns: list[_Column], casts: list[str], side: Side, scope: ConditionScope) -> KeySet:
    """The keys of a side: its own mask, that of the other side, and the values that are in neither."""
    values = [key_value(column.operands[side == "right"], "", scope) for column in columns]
    own = [
        (1 << n, value) for n, (value, column) in enumerate(zip(values, columns, strict=True)) if side in column.nulls
    ]
    bits = [1 << n for n, column in enumerate(columns) if column.nulls - {side}]
    several = ELEMENT if bits else "0"
    mask = " + ".join(f"CASE WHEN {value} IS NULL THEN {bit} ELSE 0 END" for bit, value in own) or "0"
    hashed = [mask, several] if side == "left" else [several, mask]
    for n, (value, cast) in enumerate(zip(values, casts, strict=True)):
        known = cast_to(value, cast)
        hashed.append(f"CASE WHEN {ELEMENT} & {1 << n} = 0 THEN {known} END" if 1 << n in bits else known)
    if not bits:
        return KeySet(tuple(hashed))
    subsets = chain.from_iterable(combinations(bits, size) for size in range(len(bits) + 1))
    masks = [str(sum(subset)) for subset in subsets]
    return KeySet(elements=f"array({', '.join(masks)})", element=", ".join(hashed), nulls=True, copies=len(masks))
