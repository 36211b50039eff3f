"""Hints of a SELECT, ``/*+ RANGE_JOIN(i, 60), BROADCAST(p) */``: names, arguments, relations, and places.

A malformed block is a syntax error in Spark, and contains no hints here.
A name in a hint is that of a relation of the same SELECT: its alias where it has one, else the name of its table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction

from sqlglot import exp

from dovetail.planner.band.axis import DAY, SECOND, Axis
from dovetail.planner.band.lengths import interval_length
from dovetail.planner.band.linear import Side
from dovetail.planner.errors import Place, Unsupported
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.tokens import Tokens, tokenize

RANGE_JOIN = "RANGE_JOIN"
NO_DOVETAIL = "NO_DOVETAIL"
DELTA_ORDER = "DELTA_ORDER"
STRATEGIES = {
    "BROADCAST": "BROADCAST",
    "BROADCASTJOIN": "BROADCAST",
    "MAPJOIN": "BROADCAST",
    "MERGE": "MERGE",
    "MERGEJOIN": "MERGE",
    "SHUFFLE_MERGE": "MERGE",
    "SHUFFLE_HASH": "SHUFFLE_HASH",
    "SHUFFLE_REPLICATE_NL": "SHUFFLE_REPLICATE_NL",
}
_KNOWN = (
    RANGE_JOIN,
    NO_DOVETAIL,
    DELTA_ORDER,
    "LOOKUP",
    *STRATEGIES,
    "COALESCE",
    "REPARTITION",
    "REPARTITION_BY_RANGE",
    "REBALANCE",
)
_BLOCK = re.compile(r"--[^\n]*|/\*(\+?)(.*?)\*/", re.DOTALL)
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:E[+-]?\d+)?)(?:BD|[LSYDF])?", re.IGNORECASE)
_DIGITS = 30  # a width with more of them, before or behind the point, is no width


@dataclass(frozen=True)
class Hint:
    """One hint: ``name`` in capitals, its arguments, its text on one line.  The place does not count."""

    name: str
    arguments: tuple[Scalar, ...]
    text: str
    place: Place | None = field(default=None, compare=False)

    @property
    def strategy(self) -> str:
        """The join strategy that the hint requests, by Spark's first name for it; empty for other hints."""
        return STRATEGIES.get(self.name, "")

    @property
    def meant(self) -> str:
        """The hint that an unknown name probably means, or nothing."""
        return "" if self.name in _KNOWN else next(iter(get_close_matches(self.name, _KNOWN, n=1, cutoff=0.85)), "")


@dataclass(frozen=True)
class SideHint:
    """A hint that names a ``relation``, as written, on one side of a join; ``whole``: that is all of the side.

    Spark hands a hint to the join right above its relation, and through no other join.
    """

    hint: Hint
    side: Side
    relation: str
    whole: bool = True


def block_range(gap: str) -> tuple[int, int] | None:
    """Where the blocks of hints begin and end in the text between SELECT and what follows it; None without any."""
    found = [m for m in _BLOCK.finditer(gap) if m.group(1)]
    return (found[0].start(), found[-1].end()) if found else None


def read_hints(block: Scalar | None) -> tuple[Hint, ...]:
    """The hints of a SELECT, in order; none where a block is not well formed."""
    if block is None:
        return ()
    found: list[Hint] = []
    for m in _BLOCK.finditer(block.text):
        if not m.group(1):
            continue
        try:
            found += _read(m.group(2), _move(block.place, block.text[: m.start(2)]))
        except (Unsupported, _Malformed):
            return ()
    return tuple(found)


def hints_in(text: str) -> tuple[Hint, ...]:
    """Return every hint in a statement, even if the rest of it cannot be parsed."""
    if "/*+" not in text:
        return ()
    try:
        t = tokenize(text)
    except Unsupported:
        return ()
    ends = (*(x.start for x in t.items[1:]), len(text))  # behind a block, sqlglot takes another one for a comment
    spans = ((x.start, end) for x, end in zip(t.items, ends, strict=True) if text.startswith("/*+", x.start))
    return tuple(hint for lo, hi in spans for hint in read_hints(Scalar(text[lo:hi], (), t.place(lo))))


def find_hint(text: str, name: str) -> Hint | None:
    """Return the first hint of a name in a statement; None without one."""
    if name not in text.upper():
        return None
    return next((hint for hint in hints_in(text) if hint.name == name), None)


def without(block: Scalar | None, name: str) -> Scalar | None:
    """The block without the hints of that name; None when no hint is left, the same block when it has none."""
    hints = read_hints(block)
    kept = [h.text for h in hints if h.name != name]
    if block is None or len(kept) == len(hints):
        return block
    return Scalar(f"/*+ {', '.join(kept)} */", (), block.place) if kept else None


def repeated(hints: tuple[SideHint, ...]) -> str:
    """The hints that Spark knows as a block for a SELECT of our own over the same sides; nothing without any.

    A block reaches no relation inside a derived table, so that a copy of a join in one needs the block again.
    """
    hints_text = dict.fromkeys(f"{h.hint.name}({h.relation})" for h in hints if h.hint.strategy)
    return f"/*+ {', '.join(hints_text)} */ " if hints_text else ""


def names_of(argument: Scalar) -> tuple[str, ...]:
    """The parts of the name that an argument is, from the outermost in; empty when it is no name."""
    try:
        tree = argument.tree
    except Unsupported:
        return ()
    if not isinstance(tree, exp.Column | exp.Dot) or tree.find(exp.Star):
        return ()
    parts = tree.parts
    return tuple(p.name for p in parts) if all(isinstance(p, exp.Identifier) for p in parts) else ()


def width_of(argument: Scalar) -> Width | None:
    """Parse a width; None if the argument is neither a number nor an interval of fixed length."""
    text = argument.text.strip()
    try:
        tree = argument.tree
    except Unsupported:
        return None
    if isinstance(tree, exp.Literal) and tree.is_string:
        text = tree.name.strip()
    if m := _NUMBER.fullmatch(text.replace(" ", "")):
        value = Decimal(m.group(1))
        return Width(Fraction(value)) if abs(value.adjusted()) < _DIGITS or not value else None
    micros = _interval(tree)
    return None if micros is None else Width(micros, interval=True)


@dataclass(frozen=True)
class Width:
    """A width in a hint: a bare number, or microseconds of an ``interval``."""

    amount: Fraction
    interval: bool = False

    def on(self, axis: Axis) -> Fraction | None:
        """The width in units of an axis: a number is days for DATE and seconds for times.  None where it has none."""
        if axis.name == "number":
            return None if self.interval else self.amount
        if axis.name == "date":
            return self.amount / DAY if self.interval else self.amount
        return self.amount if self.interval else self.amount * SECOND


def _interval(tree: exp.Expression) -> Fraction | None:
    match tree:
        case exp.Add():
            parts = _interval(tree.this), _interval(tree.expression)
            return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
        case exp.Interval():
            found = interval_length(tree)
            return None if found is None or found.spread else found.micros
    return None


class _Malformed(Exception):
    """Not a list of hints."""


def _read(body: str, at: Place | None) -> Iterator[Hint]:
    t = tokenize(body)
    i = 0
    while i < len(t):
        if not t[i].is_name:
            raise _Malformed
        end = t.match[i + 1] + 1 if t.word(i + 1) == "(" else i + 1
        arguments = tuple(_argument(t, a, b, at) for a, b in t.split(i + 2, end - 1)) if end > i + 1 else ()
        yield Hint(t[i].text.upper(), arguments, " ".join(t.slice(i, end).split()), _move(at, body[: t[i].start]))
        i = end + (t.word(end) == ",")


def _argument(t: Tokens, lo: int, hi: int, at: Place | None) -> Scalar:
    if hi <= lo:
        raise _Malformed
    return Scalar(t.slice(lo, hi), (), _move(at, t.text[: t[lo].start]))


def _move(place: Place | None, text: str) -> Place | None:
    """The place behind ``text``, which begins at ``place``."""
    if place is None:
        return None
    lines = text.count("\n")
    return Place(place.line + lines, len(text) - text.rfind("\n") if lines else place.column + len(text))
