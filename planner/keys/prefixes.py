"""Keys of texts that begin with other texts: those of the first bytes, of lengths that are the same on both sides.

startswith(a.path, b.prefix)     left(a.path, length(b.prefix)) = b.prefix     a.path LIKE b.pattern
                                 substring(a.path, 1, b.n) = b.prefix

A prefix has one key: its first bytes, as many as the largest level that is no longer.  A text has a key for each level
that is no longer than the text.  Bytes, since the bytes of a text begin with those of each of its prefixes, whatever is
a character; of a pattern those before the first wildcard.  LIKE decodes both, and takes all that is no UTF-8 for one
character, so a pattern with such bytes has the key of the empty prefix.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from dovetail.planner.band.linear import ConditionScope
from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import Refused
from dovetail.planner.expr import without_parentheses
from dovetail.planner.keys.comparable import without_length
from dovetail.planner.keys.elements import Sides, call_of, on_sides
from dovetail.planner.keys.key_set import ELEMENT, LEVELS, KeySet
from dovetail.planner.keys.operands import key_value
from dovetail.planner.types.typed import type_of

_MOST_LEVELS = 12
_ENDS = "_\\\\\N{REPLACEMENT CHARACTER}"  # as a literal in SQL: two backslashes are one, or two where none escapes


def read_prefix(tree: exp.Expression, scope: ConditionScope) -> Sides | None:
    """Return the keys of a test whether a text begins with another; None for anything else.  Raises ``Refused``."""
    found = _tested(tree)
    if found is None:
        return None
    text, prefix, cut = found
    side, other = scope.side(text), scope.side(prefix)
    if {side, other} != {"left", "right"}:
        return None
    if cut is not None and scope.side(cut) != "both":
        return None  # an equality
    types = [type_of(operand, scope.type_of) for operand in (text, prefix)]
    if None in types:
        raise Refused("the type of an operand is not known")
    names = {without_length(type_).text for type_ in types if type_}
    is_pattern = isinstance(without_parentheses(tree), exp.Like)
    if names != {"string"} and (names != {"binary"} or is_pattern):
        raise Refused(f"only texts without a collation have prefixes as keys, and these are {types[0]} and {types[1]}")
    whole, start = key_value(text, "", scope), key_value(prefix, "", scope)
    required = start
    if is_pattern:
        plain = f"substring_index(translate({start}, '{_ENDS}', '%%%%'), '%', 1)"
        start = f"CASE WHEN is_valid_utf8({start}) THEN {plain} ELSE '' END"
    if names == {"string"}:
        whole, start = f"CAST({whole} AS BINARY)", f"CAST({start} AS BINARY)"
    level = f"array_max(filter({LEVELS}, {ELEMENT} -> {ELEMENT} <= octet_length({start})))"
    levels = f"filter({LEVELS}, {ELEMENT} -> {ELEMENT} <= octet_length({whole}))"
    texts = KeySet(elements=levels, element=f"left({whole}, {ELEMENT})", nulls=True)
    prefixes = KeySet((f"left({start}, {level})",), (required,), length=f"octet_length({start})")
    return on_sides("left" if side == "left" else "right", texts, prefixes)


def tests_prefix(tree: exp.Expr) -> bool:
    """Whether an expression looks like such a test; never looks anything up."""
    found = _tested(tree)  # type: ignore[arg-type]
    return found is not None and all(part.find(exp.Column) for part in found[:2])


def choose_levels(lengths: Iterable[int]) -> tuple[int, ...]:
    """The lengths that prefixes have, or some of them, evenly; 0, to which any prefix can be cut, is always there."""
    found = sorted(set(lengths))
    return tuple(sorted({0, *found[:: 1 + len(found) // _MOST_LEVELS]}))


def _tested(tree: exp.Expression) -> tuple[exp.Expression, exp.Expression, exp.Expression | None] | None:
    """The text, the prefix or the pattern, and the first characters of the text if they are compared with a prefix."""
    tree = without_parentheses(tree)
    if isinstance(tree, exp.Like):
        several = isinstance(tree.expression, exp.Any | exp.All | exp.Tuple)
        return None if several or tree.args.get("negate") else (tree.this, tree.expression, None)
    match call_of(tree):
        case "startswith", [text, prefix]:
            return text, prefix, None
    found = compared(tree)
    for one, other in (found.operands, found.operands[::-1]) if found and found.sign == "=" else ():
        match call_of(one):
            case ("left", [text, length]) | (("substring" | "substr"), [text, exp.Literal(this="0" | "1"), length]):
                if length.find(exp.Column) and _may_read_both_sides(one):
                    return text, other, one
    return None


def _may_read_both_sides(tree: exp.Expression) -> bool:
    """Whether the names of columns do not show that they are all of one relation."""
    relations = {column.table for column in tree.find_all(exp.Column)}
    return len(relations) > 1 or "" in relations
