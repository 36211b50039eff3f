"""Keys of texts that begin with other texts, end with them or contain them.

Those that begin with another have the keys of the first bytes, of lengths that are the same on both sides.

startswith(a.path, b.prefix)     left(a.path, length(b.prefix)) = b.prefix     a.path LIKE b.pattern
locate(b.prefix, a.path) = 1     substring(a.path, 1, b.n) = b.prefix          a.path ILIKE b.pattern

Texts that end with other texts have those of the last bytes:

endswith(a.path, b.suffix)       right(a.path, length(b.suffix)) = b.suffix    a.path LIKE concat('%', b.suffix)

Texts that contain other texts have those of any bytes (``Substrings``).

A prefix has one key: its first bytes, as many as the largest level that is no longer.  A text has a key for each level
that is no longer than the text.  Bytes, since the bytes of a text begin with those of each of its prefixes, whatever is
a character; of a pattern those before the first wildcard.  LIKE decodes both, and takes all that is no UTF-8 for one
character, so a pattern with such bytes has the key of the empty prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlglot import exp

from dovetail.planner.band.comparisons import may_read_both_sides
from dovetail.planner.band.linear import ConditionScope, Side
from dovetail.planner.catalog import Numbers
from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import Refused
from dovetail.planner.expr import without_parentheses
from dovetail.planner.keys.comparable import without_length
from dovetail.planner.keys.elements import call_of, counted, on_sides
from dovetail.planner.keys.key_set import ELEMENT, KeySet, Leveled, Sides
from dovetail.planner.keys.operands import key_value
from dovetail.planner.keys.substrings import PATTERN_TIME, Substrings
from dovetail.planner.types.typed import infer_type, known_type

_MOST_LENGTHS = 12
_MOST_EMPTY = 0.5  # of the prefixes: each meets all rows of the other side
_WILDCARDS = ("%", "_")
_ENDS = "_\\\\\N{REPLACEMENT CHARACTER}"  # as a literal in SQL: two backslashes are one, or two where none escapes


@dataclass(frozen=True)
class Prefixes(Leveled):
    """A test whether a text begins with another, or ends with it.

    ``text`` and ``prefix``: bytes as SQL, the former on ``side``.  ``required``: the prefix as written, which may be
    NULL.  ``lengths``: to which prefixes are cut, 0 first.  ``last``: the last bytes are compared.  ``anywhere``: the
    keys of what stands behind wildcards with which a pattern begins.
    """

    side: Side
    text: str
    prefix: str
    required: str
    may_raise: bool = False
    last: bool = False
    anywhere: Substrings | None = None
    lengths: tuple[int, ...] = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)

    @property
    def sides(self) -> Sides:
        lengths = f"array({', '.join(map(str, self.lengths))})"
        longest = f"array_max(filter({lengths}, {ELEMENT} -> {ELEMENT} <= octet_length({self.prefix})))"
        several = f"filter({lengths}, {ELEMENT} -> {ELEMENT} <= octet_length({self.text}))"
        cut = self.cut(self.text, ELEMENT)
        texts = KeySet(elements=several, element=cut, nulls=True, copies=len(self.lengths), may_raise=self.may_raise)
        return on_sides(self.side, texts, KeySet((self.cut(self.prefix, longest),), (self.required,)))

    def cut(self, text: str, length: str) -> str:
        """So many of the first bytes of a text, or of the last ones."""
        return f"substring({text}, -{length}, {length})" if self.last else f"left({text}, {length})"

    @property
    def sampled(self) -> tuple[Side, str]:
        words = (self.prefix, self.anywhere.word) if self.anywhere else (self.prefix,)
        return "right" if self.side == "left" else "left", ", ".join(f"octet_length({word})" for word in words)

    @property
    def pair_time(self) -> float:
        return PATTERN_TIME if self.may_raise else 1.0

    def fitted(self, sample: Sequence[Numbers], rows: int | None) -> Prefixes | Substrings:
        """The lengths that prefixes have, or some of them, evenly; and 0, to which any prefix can be cut.

        Where most patterns begin with a wildcard, the keys of what stands behind it.
        """
        if self.anywhere and _most_empty(sample):
            return self.anywhere.fitted([row[1:] for row in sample], rows)
        found = sorted({int(row[0]) for row in sample if row[0] is not None})
        return replace(self, lengths=tuple(sorted({0, *found[:: 1 + len(found) // _MOST_LENGTHS]}))) if found else self

    def why_useless(self, sample: Sequence[Numbers]) -> str:
        if _most_empty(sample) and not (self.anywhere and not _most_empty([row[1:] for row in sample])):
            return "most patterns are empty" if self.anywhere else "most prefixes are empty"
        return ""


def _most_empty(sample: Sequence[Numbers]) -> bool:
    lengths = [row[0] for row in sample if row[0] is not None]
    return lengths.count(0) > _MOST_EMPTY * len(lengths)


def read_prefix(tree: exp.Expression, scope: ConditionScope) -> Prefixes | Substrings | None:
    """Return the keys of a test whether a text begins with another, ends with it or contains it.

    None for anything else.  Raises ``Refused``.
    """
    found = _tested(tree)
    if found is None:
        return None
    text, prefix, cut, last, anywhere = found
    side, other = scope.side(text), scope.side(prefix)
    if {side, other} != {"left", "right"}:
        return None
    if cut is not None and scope.side(cut) != "both":
        return None  # an equality
    types = [known_type(infer_type(operand, scope.type_of), "an operand") for operand in (text, prefix)]
    names = {without_length(type_).text for type_ in types}
    is_pattern = isinstance(without_parentheses(tree), exp.Like | exp.ILike)
    if names != {"string"} and (names != {"binary"} or is_pattern):
        raise Refused(f"only texts without a collation have prefixes as keys, and these are {types[0]} and {types[1]}")
    whole, start = key_value(text, "", scope), key_value(prefix, "", scope)
    required = start
    on: Side = "left" if side == "left" else "right"
    inside = start
    if is_pattern:
        plain = f"translate({start}, '{_ENDS}', '%%%%')"
        inside = _without_wildcards(start, f"ltrim('%', {plain})", last=last)
        start = _without_wildcards(start, plain, last=last)
    if names == {"string"}:
        whole, start, inside = (f"CAST({text} AS BINARY)" for text in (whole, start, inside))
    substrings = Substrings(on, whole, inside, required, is_pattern)
    if anywhere:
        return substrings
    return Prefixes(on, whole, start, required, is_pattern, last, substrings if is_pattern and not last else None)


def _without_wildcards(pattern: str, plain: str, *, last: bool) -> str:
    """The first or last piece of ``plain``, a pattern whose wildcards are all ``%``; empty where it is no UTF-8."""
    return f"CASE WHEN is_valid_utf8({pattern}) THEN substring_index({plain}, '%', {-1 if last else 1}) ELSE '' END"


def tests_prefix(tree: exp.Expr) -> bool:
    """Whether an expression looks like such a test; never looks anything up."""
    found = _tested(tree)  # type: ignore[arg-type]
    return found is not None and all(part.find(exp.Column) for part in found[:2])


class _Test(NamedTuple):
    """The text, the prefix or the pattern, and the first characters of the text if they are compared with a prefix.

    ``last``: the last characters, and a suffix.  ``anywhere``: any characters.
    """

    text: exp.Expression
    prefix: exp.Expression
    cut: exp.Expression | None = None
    last: bool = False
    anywhere: bool = False


def _tested(tree: exp.Expression) -> _Test | None:
    """Read a test whether a text begins or ends with another."""
    tree = without_parentheses(tree)
    if isinstance(tree, exp.Like | exp.ILike):
        several = isinstance(tree.expression, exp.Any | exp.All | exp.Tuple)
        if several or tree.args.get("negate"):
            return None
        texts = [_text_of(part) for part in _parts(tree.expression)]
        before, behind = texts[0].startswith(_WILDCARDS), texts[-1].endswith(_WILDCARDS)
        text, pattern = tree.this, tree.expression
        if isinstance(tree, exp.ILike):  # Spark's own definition
            text, pattern = (exp.Lower(this=part.copy()) for part in (text, pattern))
        return _Test(text, pattern, last=before and not behind, anywhere=before and behind)
    match call_of(tree):
        case "contains", [text, part]:
            return _Test(text, part, anywhere=True)
        case (("startswith" | "endswith") as name, [text, prefix]):
            return _Test(text, prefix, last=name == "endswith")
    found = compared(tree)
    for one, other in (found.operands, found.operands[::-1]) if found and found.sign == "=" else ():
        if test := _compared_with(one, other):
            return test
    match call_of(counted(tree)):
        case (("locate" | "position" | "charindex"), [part, text]) | ("instr", [text, part]):
            return _Test(text, part, anywhere=True)
    return None


def _compared_with(one: exp.Expression, other: exp.Expression) -> _Test | None:
    """Read an equality of a call with another expression as such a test."""
    match call_of(one):
        case (("locate" | "position" | "charindex"), [prefix, text]) | ("instr", [text, prefix]):
            return _Test(text, prefix) if isinstance(other, exp.Literal) and other.name == "1" else None
        case ("left", [text, length]) | (("substring" | "substr"), [text, exp.Literal(this="0" | "1"), length]):
            last = False
        case ("right", [text, length]) | (("substring" | "substr"), [text, exp.Neg(this=length)]):
            last = True
        case _:
            return None
    return _Test(text, other, one, last) if length.find(exp.Column) and may_read_both_sides(one) else None


def _parts(pattern: exp.Expression) -> list[exp.Expression]:
    """The texts that a pattern is put together from."""
    pattern = without_parentheses(pattern)
    found = [pattern.this, pattern.expression] if isinstance(pattern, exp.DPipe) else []
    name, arguments = call_of(pattern)
    found = arguments if name == "concat" else found
    return [part for one in found for part in _parts(one)] or [pattern]


def _text_of(part: exp.Expression) -> str:
    """The text of a literal; empty for any other part of a pattern."""
    return part.name if isinstance(part, exp.Literal) and part.is_string else ""
