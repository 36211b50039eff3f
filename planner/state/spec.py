"""The specification of a join of streams: inputs, stored columns, the program of an epoch; stored with the state."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from dovetail.planner.errors import StateError
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import JoinKind
from dovetail.planner.state.delta import DeltaJoin
from dovetail.planner.state.fingerprint import Given, describe_arguments, fingerprint, new_salt
from dovetail.planner.state.program import EpochProgram
from dovetail.planner.state.refusals import NEW_CHECKPOINT, check_settings, damaged, other_format
from dovetail.planner.version import VERSION

FORMAT = 2
MEANING = (
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.session.timeZone",
    "spark.sql.ansi.doubleQuotedIdentifiers",
)
"""Settings that the meaning of a query over a state depends on; at each start they must be as at the first."""
_OFF = ("spark.sql.ansi.doubleQuotedIdentifiers", "false")


def described_settings(values: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Each of ``MEANING`` with its value, in that order; the last is left out if off, as in older states."""
    return tuple(pair for pair in zip(MEANING, values, strict=True) if pair != _OFF)


@dataclass(frozen=True)
class StoredColumn:
    """A stored column of a stream: its name in the files, its name in the stream, its type."""

    stored: str
    name: str
    type: str


@dataclass(frozen=True)
class Input:
    """A stream that is read and stored once.

    ``relation`` is SQL.  ``rows`` is the condition on rows that are read, ``keep`` that on rows that are stored; both
    may be empty.  ``event_time``, its type ``time`` and the ``delay`` (milliseconds) are those of its watermark.
    ``marks`` are positions, as SQL, whose least and greatest values each segment records (a zone map).  A row expires
    when the watermark reaches its ``expires`` (microseconds); empty if rows never expire.  ``lasts`` describes this for
    a reader.  ``late``: late rows are dropped.  ``change`` is the column with the kind of change; empty if all rows are
    inserts.  ``key``: the key of versions; a version expires when the watermark reaches a newer one of its key.
    """

    name: str
    relation: str
    columns: tuple[StoredColumn, ...]
    rows: str
    keep: str
    event_time: str
    time: str
    delay: int
    marks: tuple[str, ...]
    expires: str
    lasts: str
    late: bool
    change: str = ""
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class AsOf:
    """A temporal join: rows of the first side match the version of the second that is valid at their ``time``, as SQL.

    ``plain`` is the query as a plain join, which Spark can analyze.
    """

    time: str
    plain: str


@dataclass(frozen=True)
class Side:
    """A relation of FROM: ``shown`` are its columns, by name and value; ``rows`` filters the rows of its input.

    ``ticks`` filters the rows that advance its watermark.  An empty condition accepts all rows.
    """

    input: int
    shown: tuple[tuple[str, str], ...]
    rows: str
    ticks: str


@dataclass(frozen=True)
class Reach:
    """A distance bound, ``large - small >= least``; each end is a side and a mark of its input, by their numbers."""

    small: tuple[int, int]
    large: tuple[int, int]
    least: int


@dataclass(frozen=True)
class StreamJoin:
    """A join of streams, or of one with itself; more than two streams are joined by inner or left joins.

    ``text`` is the user's.  ``finals``, by side, is the watermark, as SQL, at which a row without a match is final;
    empty for sides that are not preserved.  ``changes``: the column of the answer with the kind of change, if an input
    is a changelog; the statements then count rows in ``COUNT``.  ``delta``: the paths of a delta join.  They and their
    program may differ at each start, so they are no part of the identity of the state.  ``as_of``: the second side
    has versions; a row of the first is answered once, when it is final.  ``given``: the query with its arguments, if it
    has any; ``text`` has their values.
    """

    text: str
    kind: JoinKind
    inputs: tuple[Input, ...]
    sides: tuple[Side, ...]
    reaches: tuple[Reach, ...]
    program: EpochProgram
    finals: tuple[str, ...]
    keys: tuple[str, ...]
    condition: str
    settings: tuple[tuple[str, str], ...]
    changes: str = ""
    delta: DeltaJoin | None = None
    as_of: AsOf | None = None
    given: Given | None = None

    @property
    def shown(self) -> str:
        """The query to show to a reader, without the values of its arguments."""
        return self.given.text if self.given else self.text

    @property
    def analyzed(self) -> str:
        """The query in a form that Spark can analyze, with the columns of the answer."""
        return self.as_of.plain if self.as_of else self.text

    @property
    def bands(self) -> tuple[Reach, ...]:
        """The distance bounds of bands; the two bounds of an equality are left out."""
        ends = {(r.small, r.large): r.least for r in self.reaches}
        return tuple(r for r in self.reaches if ends.get((r.large, r.small)) != -ends[r.small, r.large])

    @property
    def banded(self) -> bool:
        """Whether the condition has a band, or one bound of it, next to equalities."""
        return bool(self.bands)

    @property
    def lasting(self) -> tuple[int, ...]:
        """The inputs whose rows never expire by the watermark."""
        return tuple(n for n, i in enumerate(self.inputs) if not (i.expires or i.key))

    @property
    def identity(self) -> dict[str, Any]:
        """The parts of the join that decide what the state holds, and that must be the same at each start."""
        document = asdict(self)
        for name in ("delta", "given", "program"):
            del document[name]
        return document if self.delta else {**document, "blocks": self.program.document}

    @property
    def watermarks(self) -> dict[str, str]:
        """The watermark of each input that has one, for a reader."""
        return {i.name: f"{i.event_time} {i.delay / 1000:g} s" for i in self.inputs if i.event_time}

    def to_json(self) -> str:
        """Describe the join for the file next to the state: for a reader, and to recognize it at the next start."""
        salt = new_salt()
        document = {
            "format": FORMAT,
            "version": VERSION,
            "watermarks": self.watermarks,
            "text": self.shown,
            "settings": self.settings,
            "inputs": [_shown(i) for i in self.inputs],
            "salt": salt,
            "fingerprint": fingerprint(salt, self.identity),
            **describe_arguments(self.given, salt),
        }
        return json.dumps(document, indent=1, ensure_ascii=False)

    def check_same(self, written: str, where: str) -> None:
        """Raise ``StateError`` unless the state in ``where``, described by ``written``, belongs to this join."""
        old = read_description(written, where)
        if "text" in old and old.get("fingerprint") == fingerprint(str(old.get("salt")), self.identity):
            return
        if old.get("text") == self.shown:
            check_settings(where, old.get("settings", ()), self.settings, NEW_CHECKPOINT)
        now = [_shown(i) for i in self.inputs]
        types = [[(c["name"], c["type"]) for i in one for c in i["columns"]] for one in (old.get("inputs", ()), now)]
        other = self.given.other(old) if self.given else []
        if "text" not in old:
            what = "views on one state"
        elif old["text"] != self.shown:
            what = f"another query: {Scalar(str(old['text'])).shown}"
        elif other:
            what = f"another value of {', '.join(other)}"
        elif types[0] != types[1]:
            what = f"another schema: {_format_columns(types[0])}; now {_format_columns(types[1])}"
        else:
            raise StateError(_other_plan(old, self.watermarks, where))
        raise StateError(f"the state in {where} belongs to {what}; {NEW_CHECKPOINT}")


def read_description(written: str, where: str) -> dict[str, Any]:
    """Read the description of the state in ``where``.  Raises ``StateError`` if it is unreadable."""
    try:
        found: dict[str, Any] = json.loads(written)
        version = int(found["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(f"{where} cannot be read: {error}") from error
    if version != FORMAT:
        raise other_format(f"the state in {where}", version, FORMAT, NEW_CHECKPOINT)
    return found


def _other_plan(old: dict[str, Any], watermarks: dict[str, str], where: str) -> str:
    """Explain why the state of the same query, settings and schema holds other rows than the query would store now."""
    was, version = old.get("watermarks"), old.get("version")
    if isinstance(was, dict) and was != watermarks:
        names = [n for n in {**was, **watermarks} if was.get(n) != watermarks.get(n)]
        pairs = [f"{n}: {was.get(n, 'none')}, and now {watermarks.get(n, 'none')}" for n in names]
        return (
            f"The state in {where} was written with other watermarks ({'; '.join(pairs)}). They decide which rows it "
            f"holds. Restore the watermarks, or {NEW_CHECKPOINT}"
        )
    writer = f"Dovetail {version}" if version else "an older Dovetail, which did not record its version"
    if version == VERSION:
        return (
            f"The state in {where} was written by another plan of this query, though by this version of Dovetail, "
            f"{VERSION}. A declared key, a view that the query reads, or an option has changed since. Restore it, or "
            f"{NEW_CHECKPOINT}"
        )
    return (
        f"The state in {where} was written by {writer}, and Dovetail {VERSION}, which runs now, plans this query in "
        f"another way. Install the version that wrote it, or {NEW_CHECKPOINT}"
    )


def _shown(input_: Input) -> dict[str, Any]:
    """Describe an input for a reader, without its conditions, which contain arguments."""
    document: dict[str, Any] = {"name": input_.name, "columns": [asdict(c) for c in input_.columns]}
    return {**document, "change": input_.change} if input_.change else document


def _format_columns(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns)
