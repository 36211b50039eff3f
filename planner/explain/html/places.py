"""The places of reasons in the SQL: each is underlined, and linked to its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, is_dataclass
from itertools import pairwise
from typing import Any, Literal

from dovetail.planner.errors import Place
from dovetail.planner.explain.printer import ShownStep
from dovetail.planner.expr import Scalar
from dovetail.planner.tree import Node, values_of

Kind = Literal["fired", "declined", "warning", "error"]
_KINDS: tuple[Kind, ...] = ("error", "warning", "declined", "fired")  # the first of several decides the color
_WORD = re.compile(r"\w+|`[^`\n]*`|\S", re.ASCII)


@dataclass(frozen=True)
class Reason:
    """A rule that fired or declined, a warning or an error, and its places in the SQL, the first of which is shown.

    ``id``: the target of links to it; ``mark``: its footnote sign.
    """

    kind: Kind
    id: str
    mark: str
    rule: str
    text: str
    places: tuple[Place, ...] = ()

    @property
    def place(self) -> Place | None:
        """The first place, if there is one."""
        return self.places[0] if self.places else None


@dataclass(frozen=True)
class Segment:
    """A piece of a line of SQL, and the reasons that concern it; ``ends``: those whose last text ends here."""

    text: str
    kind: Kind | None = None
    reasons: tuple[Reason, ...] = ()
    ends: tuple[Reason, ...] = ()


def scalar_lengths(text: str, plan: Node | None) -> dict[Place, int]:
    """The lengths of the expressions of a plan in the text, by their places."""
    starts, found = _line_starts(text), dict[Place, int]()
    for node in plan.walk() if plan is not None else ():
        for scalar in _scalars(node):
            if scalar.place and text.startswith(scalar.text, _offset(scalar.place, starts, text)):
                found[scalar.place] = max(len(scalar.text), found.get(scalar.place, 0))
    return found


def places_of(step: ShownStep) -> tuple[Place, ...]:
    """The places of a rewriting: the expressions that became part of a record, such as a band.

    If there are none: the conditions that the new plan does not have; else the first expression that it does not have;
    else the first expression.
    """
    recorded = {scalar for record in _records(step.after) for scalar in _scalars(record)}
    found = [scalar.place for scalar in _scalars(step.before) if scalar.place and scalar in recorded]
    if not found:
        remaining = {scalar for node in step.after.walk() for scalar in _scalars(node)}
        below = [(node, s.place, s) for node in step.before.walk() for s in _scalars(node) if s.place]
        gone = [(node, place) for node, place, scalar in below if scalar not in remaining]
        conditions = [place for node, place in gone if hasattr(node, "condition")]
        first = sorted(place for _, place in gone)[:1] or sorted(place for _, place, _ in below)[:1]
        found = conditions or first
    return tuple(sorted(set(found)))


def mark_text(text: str, reasons: Iterable[Reason], lengths: dict[Place, int]) -> list[list[Segment]]:
    """Cut the text into lines, and each line into segments with the reasons that concern them."""
    starts = _line_starts(text)
    spans: list[tuple[int, int, Reason]] = []
    for reason in reasons:
        for place in reason.places:
            if place.line > len(starts):
                continue
            start = _offset(place, starts, text)
            word = _WORD.match(text, start)
            length = lengths.get(place) or (len(word.group()) if word else 0)
            if length:
                spans.append((start, start + length, reason))
    lines = []
    for start, line in zip(starts, text.split("\n"), strict=True):
        end, first = start + len(line), start + len(line) - len(line.lstrip())
        cuts = {start, first, end, *(at for a, b, _ in spans for at in (a, b) if start < at < end)}
        lines.append(list(_segments(text, sorted(cuts), spans)))
    return lines


def _segments(text: str, cuts: list[int], spans: list[tuple[int, int, Reason]]) -> Iterator[Segment]:
    last = {reason.id: end for _, end, reason in sorted(spans, key=lambda span: span[1])}
    for a, b in pairwise(cuts):
        held = [(start, end, reason) for start, end, reason in spans if start < b and a < end]
        found = [reason for *_, reason in sorted(held, key=lambda s: (_KINDS.index(s[2].kind), s[1] - s[0]))]
        ends = tuple(reason for _, end, reason in held if end == b == last[reason.id])
        # the blanks at the start of a line in the middle of an expression are not underlined
        if found and not text[a:b].strip():
            yield Segment(text[a:b], ends=ends)
        else:
            yield Segment(text[a:b], found[0].kind if found else None, tuple(found), ends)


def _line_starts(text: str) -> list[int]:
    return [0, *(found.end() for found in re.finditer("\n", text))]


def _offset(place: Place, starts: list[int], text: str) -> int:
    return min(starts[min(place.line, len(starts)) - 1] + place.column - 1, len(text))


def _scalars(value: Any) -> Iterator[Scalar]:
    """The expressions in the fields of a node or record, and in the records in them; none of other nodes."""
    yield from (item for item in _items(value) if isinstance(item, Scalar))
    for record in _records(value):
        yield from _scalars(record)


def _records(value: Any) -> Iterator[Any]:
    """The records in the fields of a node or record."""
    for item in _items(value):
        if is_dataclass(item) and not isinstance(item, Node | Scalar | type):
            yield item


def _items(value: Any) -> Iterator[Any]:
    for held in values_of(value).values():
        yield from held if isinstance(held, tuple) else (held,)
