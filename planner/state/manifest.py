"""The manifest of an epoch: the segments of the state after it, and the watermarks.

It is one small JSON text with a checksum.  The newest manifest defines the state; files that no manifest names belong
to an unfinished epoch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dovetail.planner.state.refusals import damaged

Span = tuple[int, int] | None


@dataclass(frozen=True)
class Segment:
    """Rows of one input, in one folder: ``files`` are names with their sizes.

    ``marks`` hold the least and greatest value of each of the input's marks, None where no row has one; ``times``
    those of its event time, in microseconds.  ``expires`` is the watermark, in microseconds, at which the last of
    its rows can match no more, None for never; ``half`` the one at which about half of them can.  ``arrived`` is
    the clock when the newest came, in milliseconds; ``tier`` how often it has been merged.
    """

    folder: str
    files: tuple[tuple[str, int], ...]
    rows: int
    marks: tuple[Span, ...]
    times: Span
    expires: int | None
    arrived: int
    tier: int = 0
    half: int | None = None

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return sum(size for _, size in self.files)


def marks_of(segments: Sequence[Segment]) -> tuple[Span, ...]:
    """The least and greatest value of each mark over several segments of one input, of which there is at least one."""
    found = [[span for span in spans if span] for spans in zip(*(s.marks for s in segments), strict=True)]
    return tuple((min(s[0] for s in spans), max(s[1] for s in spans)) if spans else None for spans in found)


@dataclass(frozen=True)
class InputState:
    """What is kept of one input, and counts since the beginning: rows that were read, and that were late."""

    segments: tuple[Segment, ...] = ()
    read: int = 0
    late: int = 0

    @property
    def rows(self) -> int:
        """Rows kept."""
        return sum(s.rows for s in self.segments)

    @property
    def bytes(self) -> int:
        """Bytes kept."""
        return sum(s.bytes for s in self.segments)

    @property
    def files(self) -> int:
        """How many files they lie in."""
        return sum(len(s.files) for s in self.segments)

    @property
    def times(self) -> Span:
        """The event times of the oldest and of the newest row kept, in microseconds; None where no row has one."""
        times = [s.times for s in self.segments if s.times]
        return (min(t[0] for t in times), max(t[1] for t in times)) if times else None


@dataclass(frozen=True)
class Manifest:
    """The state after an epoch; that of epoch -1 is empty.

    ``times``: the watermark of each side by itself, in milliseconds, None before its first row.  ``watermark`` is that
    of the query; None where no side has one.  ``obsolete`` are folders that this epoch needed last.  ``answered``: of
    joins that share the state, the names of those that have returned all that they find in it.
    """

    epoch: int
    inputs: tuple[InputState, ...]
    times: tuple[int | None, ...] = ()
    watermark: int | None = None
    obsolete: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The manifest as text, with its checksum in the first line."""
        body = json.dumps(asdict(self), ensure_ascii=False)
        return f"{_checksum(body)}\n{body}\n"


def read_manifest(text: str, where: str) -> Manifest:
    """Parse a manifest.  Raises ``StateError`` for a damaged one; ``where`` names it."""
    checksum, _, body = text.partition("\n")
    if checksum != _checksum(body.rstrip("\n")):
        raise damaged(f"{where} is damaged: its checksum does not fit its text")
    try:
        found: dict[str, Any] = json.loads(body)
        inputs = tuple(_input(i) for i in found["inputs"])
        times, obsolete, answered = (tuple(found.get(name, ())) for name in ("times", "obsolete", "answered"))
        return Manifest(found["epoch"], inputs, times, found["watermark"], obsolete, answered)
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(f"{where} is damaged: {type(error).__name__}: {error}") from error


def _input(found: dict[str, Any]) -> InputState:
    segments = []
    for segment in found.pop("segments"):
        files = tuple((name, size) for name, size in segment.pop("files"))
        marks = tuple(_span(mark) for mark in segment.pop("marks"))
        segments.append(Segment(files=files, marks=marks, times=_span(segment.pop("times")), **segment))
    return InputState(tuple(segments), **found)


def _span(found: list[int] | None) -> Span:
    return None if found is None else (found[0], found[1])


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


@dataclass
class Change:
    """What an epoch does to the state of the inputs, one after the other."""

    inputs: list[InputState]
    obsolete: list[str] = field(default_factory=list)

    def add(self, number: int, segment: Segment | None, *, read: int, late: int) -> None:
        """Add what has arrived on an input."""
        old = self.inputs[number]
        segments = (*old.segments, segment) if segment else old.segments
        self.inputs[number] = InputState(segments, old.read + read, old.late + late)

    def put(self, number: int, old: tuple[Segment, ...], new: Segment | None = None) -> None:
        """Replace segments of an input by one, or by none."""
        segments = self.inputs[number].segments
        at = next((n for n, s in enumerate(segments) if s in old), 0)
        remaining = [s for s in segments if s not in old]
        self.inputs[number] = replace(
            self.inputs[number], segments=(*remaining[:at], *([new] if new else []), *remaining[at:])
        )
        self.obsolete += [s.folder for s in old]
