"""Keys of comparisons with the elements of an array: a row of the array's side has a key for each of them.

array_contains(b.items, a.x)     exists(b.items, e -> e = a.x)     a.x IN (b.y, b.z)     map_contains_key(b.m, a.x)
array_position(b.items, a.x) > 0     find_in_set(a.x, b.list) > 0     a.x = CASE WHEN b.k = 1 THEN b.y ELSE b.z END
exists(b.items, e -> e.sku = a.x AND e.n > 0)                          ``<> 0`` as well
arrays_overlap(a.tags, b.tags)   size(array_intersect(a.tags, b.tags)) > 0                both sides have several keys
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp

from dovetail.planner.band.comparisons import may_read_both_sides
from dovetail.planner.band.linear import ConditionScope
from dovetail.planner.conditions.compared import compared, flat
from dovetail.planner.errors import Refused
from dovetail.planner.expr import quote, without_parentheses
from dovetail.planner.keys.alternatives import choices
from dovetail.planner.keys.comparable import common_cast
from dovetail.planner.keys.key_set import ELEMENT, KeySet, Sides
from dovetail.planner.keys.operands import cast_to, key_value
from dovetail.planner.types.schema import SqlType
from dovetail.planner.types.typed import infer_type


def read_elements(tree: exp.Expression, scope: ConditionScope) -> Sides | None:
    """Return the keys of a comparison with the elements of an array; None for anything else.  Raises ``Refused``."""
    tree = without_parentheses(tree)
    if isinstance(tree, exp.In) and tree.expressions and not tree.args.get("query"):
        return _one_of(tree, scope)
    if (chosen := _chosen(tree)) and any(scope.side(operand) == "both" for operand in tree.iter_expressions()):
        return _one_of(chosen, scope, chosen=True)
    if overlap := _overlap(tree, ansi=scope.ansi):
        one, other, nulls = overlap
        return _overlapping(one, other, scope, nulls=nulls)
    found = _member(tree)
    return _contained(found, scope) if found else None


def tests_elements(tree: exp.Expr) -> bool:
    """Whether an expression looks like such a comparison; never looks anything up."""
    if isinstance(tree, exp.In):
        return any(item.find(exp.Column) for item in tree.expressions)
    return bool(_member(tree) or _overlap(tree) or _chosen(tree))  # type: ignore[arg-type]


def call_of(tree: exp.Expression) -> tuple[str, list[exp.Expression]]:
    """The name of a call, in lower case, and its arguments; no name for anything else."""
    if isinstance(tree, exp.Anonymous) and isinstance(tree.this, str):
        return tree.this.lower(), tree.expressions
    return "", []


class _Member(NamedTuple):
    """A test whether an array has a value; ``of_keys``: whether a map has it as a key.

    ``field``: the field of the elements that is compared, by its path; empty where it is the elements themselves.
    """

    array: exp.Expression
    value: exp.Expression
    of_keys: bool = False
    field: tuple[str, ...] = ()


def _member(tree: exp.Expression) -> _Member | None:
    match call_of(tree):
        case "array_contains", [array, value]:
            return _Member(array, value)
        case "map_contains_key", [map_, value]:
            return _Member(map_, value, of_keys=True)
        case "exists", [array, exp.Lambda() as test] if len(test.expressions) == 1:
            return next(_equated(array, test.this, test.expressions[0].name), None)
    match call_of(counted(tree)):
        case "array_position", [array, value]:
            return _Member(array, value)
        case "find_in_set", [value, items]:
            return _Member(exp.Anonymous(this="split", expressions=[items, exp.Literal.string(",")]), value)
    return None


def _equated(array: exp.Expression, test: exp.Expression, variable: str) -> Iterator[_Member]:
    """The equalities of an element, or of a field of it, with another value in the test of a lambda."""
    for part in flat(test, exp.And):
        found = compared(part)
        for one, other in (found.operands, found.operands[::-1]) if found and found.sign == "=" else ():
            root, *field = _path(one)
            if isinstance(root, exp.Identifier) and root.name == variable and not _mentions(other, variable):
                yield _Member(array, other, field=tuple(part.name for part in field))


def _path(tree: exp.Expression) -> list[exp.Expression]:
    """A value and the fields of it that are read, from the outermost in."""
    return [*_path(tree.this), tree.expression] if isinstance(tree, exp.Dot) else [tree]


def _mentions(tree: exp.Expression, variable: str) -> bool:
    """Whether a variable stands in an expression; a qualified column of its name is another thing."""
    found = (node for node in tree.find_all(exp.Identifier) if node.name.lower() == variable.lower())
    return any(not (isinstance(node.parent, exp.Column) and node.parent.table) for node in found)


def _overlap(tree: exp.Expression, *, ansi: bool = True) -> tuple[exp.Expression, exp.Expression, bool] | None:
    """The arrays of a test whether they have an element in common; True where NULL counts as one.

    ``ansi``: whether the size of NULL is NULL, and not -1.
    """
    match call_of(tree):
        case "arrays_overlap", [one, other]:
            return one, other, False
    match call_of(counted(tree, negative=not ansi)):
        case (("size" | "cardinality" | "array_size"), [inner]):
            match call_of(without_parentheses(inner)):
                case "array_intersect", [one, other]:
                    return one, other, True
    return None


def counted(tree: exp.Expression, *, negative: bool = False) -> exp.Expression:
    """What a comparison takes to be 1 at least, as ``n > 0``, ``n >= 2`` and ``n = 1`` do; NULL for any other test.

    So does ``n <> 0``, unless n may be ``negative``.
    """
    found = compared(tree)
    for one in (found, found.turned) if found else ():
        least = {">": 0, ">=": 1, "=": 1, **({} if negative else {"<>": 0})}.get(one.sign)
        if least is not None and isinstance(one.right, exp.Literal) and one.right.is_int:
            number = int(one.right.name)
            return one.left if number == least or (number > least and one.sign != "<>") else exp.Null()
    return exp.Null()


def _chosen(tree: exp.Expression) -> exp.In | None:
    """``a.x = CASE WHEN b.k = 1 THEN b.y ELSE b.z END`` as ``a.x IN (b.y, b.z)``, which follows from it."""
    found = compared(tree)
    for one, other in (found.operands, found.operands[::-1]) if found and found.sign == "=" else ():
        values = [value.copy() for _, value in choices(other) if not isinstance(value, exp.Null)]
        if may_read_both_sides(other) and any(value.find(exp.Column) for value in values):
            return exp.In(this=one.copy(), expressions=values)
    return None


def _one_of(tree: exp.In, scope: ConditionScope, *, chosen: bool = False) -> Sides | None:
    """``a.x IN (b.y, b.z, 3)``: the keys of the items' side are the values of the items.

    ``chosen``: one of them is compared, cast to a type that all of them have in common.
    """
    side = scope.side(tree.this)
    other = {scope.side(item) for item in tree.expressions} - {None}
    if side not in ("left", "right") or other != {"right" if side == "left" else "left"}:
        return None
    types = tuple(infer_type(operand, scope.type_of) for operand in (tree.this, *tree.expressions))
    cast = common_cast(types, ansi=scope.ansi)
    odd = any(type_ and ("struct" in type_.text or (chosen and not type_.numeric)) for type_ in types)
    if odd and len(set(types[1:])) > 1:
        if isinstance(tree.this, exp.Tuple):
            return None  # a branch for each of them
        raise Refused("the values are of several types; cast them to one")
    value = key_value(tree.this, cast, scope)
    items = ", ".join(key_value(item, cast, scope) for item in tree.expressions)
    return on_sides(side, KeySet((value,), (value,)), KeySet(elements=f"array({items})"))


def _contained(member: _Member, scope: ConditionScope) -> Sides | None:
    side = scope.side(member.value)
    if side not in ("left", "right") or scope.side(member.array) != ("right" if side == "left" else "left"):
        return None
    element = _element(member.array, scope)
    element = element and element.field(member.field)
    cast = common_cast((element, infer_type(member.value, scope.type_of)), ansi=scope.ansi)
    one, text = key_value(member.value, cast, scope), key_value(member.array, "", scope)
    compared_part = ".".join((ELEMENT, *map(quote, member.field)))
    elements = KeySet(elements=f"map_keys({text})" if member.of_keys else text, element=cast_to(compared_part, cast))
    return on_sides(side, KeySet((one,), (one,)), elements)


def _overlapping(one: exp.Expression, other: exp.Expression, scope: ConditionScope, *, nulls: bool) -> Sides | None:
    ends = scope.order_by_side(one, other)
    if ends is None:
        return None
    cast = common_cast(tuple(_element(end, scope) for end in ends), ansi=scope.ansi)
    left, right = (
        KeySet(elements=key_value(end, "", scope), element=cast_to(ELEMENT, cast), nulls=nulls) for end in ends
    )
    return left, right


def _element(array: exp.Expression, scope: ConditionScope) -> SqlType | None:
    """The type of the elements of an array, or of the keys of a map."""
    type_ = scope.type_of(array)
    return next(iter(type_.elements), None) if type_ else None


def on_sides(side: str, one: KeySet, other: KeySet) -> Sides:
    """The keys of a side and those of the other one, those of the left side first."""
    return (one, other) if side == "left" else (other, one)
