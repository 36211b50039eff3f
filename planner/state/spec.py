"""A join of streams as data: what is read and kept, and what an epoch asks.  Written beside the state."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from planner.errors import StateError
from planner.logical import JoinKind
from planner.state.delta import DeltaJoin
from planner.state.refusals import ANEW, damaged, hold_settings

FORMAT = 1
MEANING = "spark.sql.ansi.enabled", "spark.sql.caseSensitive", "spark.sql.session.timeZone"
"""Settings that say what a query over a state means, and so must be at each start what they were at the first."""


@dataclass(frozen=True)
class Kept:
    """A column of a stream that is kept: its name in the files, its name in the stream, its type."""

    stored: str
    name: str
    type: str


@dataclass(frozen=True)
class Input:
    """A stream that is read once and kept once.

    ``relation`` is SQL.  ``rows`` is the condition on what is read; ``keep`` that on what is kept; both may be empty.
    ``event_time`` with its type ``time``, and ``delay`` (milliseconds), are of its watermark.  ``marks`` are positions,
    as SQL, whose least and greatest value is known for each segment.  A row whose ``expires``, in microseconds, the
    watermark has reached can match no more; nothing where that never happens.  ``lasts`` says so in words.  ``late``:
    rows that are late are dropped.  ``change`` is the column that says how rows change; nothing where all are new.
    ``key``: columns of which each row is a version, which leaves once the watermark has reached a newer one of them.
    """

    name: str
    relation: str
    columns: tuple[Kept, ...]
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
    """Rows of the first side meet the version of the second that is valid at their ``time``, as SQL.

    ``plain`` is the query without that, which Spark can analyse.
    """

    time: str
    plain: str


@dataclass(frozen=True)
class Side:
    """A relation of FROM: ``shown`` are its columns, by name and value; ``rows`` which rows of the input are its.

    ``ticks``: which rows move its watermark.  Conditions are all rows where they are empty.
    """

    input: int
    shown: tuple[tuple[str, str], ...]
    rows: str
    ticks: str


@dataclass(frozen=True)
class Reach:
    """``large - small >= least`` for all pairs; each a side, by number, and the number of a mark of its input."""

    small: tuple[int, int]
    large: tuple[int, int]
    least: int


@dataclass(frozen=True)
class Blocks:
    """The statements of an epoch, over views named by ``view``.

    ``pairs``: whose rows are the answer, a statement a side: what is new on it with all of the sides after it and what
    was there before on those before it.  A semi join asks the second in two steps (``again``): rows of the left that
    have a match now, and those of them that had none before, which ``first`` then holds.  By side, for rows that may be
    returned without a match: those of ``final`` that have none (``unmatched``), and the answer over these (``lone``).
    Where ``unmatched`` is not said of a side, its ``lone`` answers for all of ``final``, with ``curr`` of the other.
    ``on``: for a reader, the conditions of a delta join by side, lookup by lookup.
    """

    pairs: tuple[str, ...]
    again: tuple[str, ...]
    unmatched: tuple[str, ...]
    lone: tuple[str, ...]
    on: tuple[tuple[str, ...], ...] = ()

    @property
    def answers(self) -> tuple[str, ...]:
        """Those that return rows of the query."""
        return (*self.pairs, *filter(None, self.lone))

    @property
    def steps(self) -> tuple[str, ...]:
        """Those that return rows of one side."""
        return (*self.again, *filter(None, self.unmatched))


@dataclass(frozen=True)
class StreamJoin:
    """A join of streams, or of one with itself; of more than two, inner joins alone.

    ``text`` is the user's.  ``finals``, by side, say as SQL which watermark makes a row final that has no match;
    nothing for sides whose rows are returned only with one.  ``changes``: the column of the answer that says how its
    rows change, where an input is a changelog; its statements then count rows in ``COUNT``.  ``delta``: the paths of a
    join of more than two, which may be other ones at each start, as may their statements: they are no part of what the
    state is of.  ``as_of``: the second side has versions; a row of the first is answered once, when it is final.
    """

    text: str
    kind: JoinKind
    inputs: tuple[Input, ...]
    sides: tuple[Side, ...]
    reaches: tuple[Reach, ...]
    blocks: Blocks
    finals: tuple[str, ...]
    keys: tuple[str, ...]
    condition: str
    settings: tuple[tuple[str, str], ...]
    changes: str = ""
    delta: DeltaJoin | None = None
    as_of: AsOf | None = None

    @property
    def analysed(self) -> str:
        """The query in words that Spark analyses, with the columns of the answer."""
        return self.as_of.plain if self.as_of else self.text

    @property
    def bands(self) -> tuple[Reach, ...]:
        """The reaches that are a band or one end of it; the two ends of an equality meet."""
        ends = {(r.small, r.large): r.least for r in self.reaches}
        return tuple(r for r in self.reaches if ends.get((r.large, r.small)) != -ends[r.small, r.large])

    @property
    def banded(self) -> bool:
        """Whether a band, or one end of it, is in the condition beside equalities."""
        return bool(self.bands)

    @property
    def lasting(self) -> tuple[int, ...]:
        """The inputs whose rows never leave by the watermark."""
        return tuple(n for n, i in enumerate(self.inputs) if not (i.expires or i.key))

    def to_json(self) -> str:
        """What is written beside the state, to be held against the query of the next start."""
        said = {"format": FORMAT, **asdict(self)}
        del said["delta"]
        own = (said, "changes"), (said, "as_of")
        for one, without in (*own, *((i, name) for i in said["inputs"] for name in ("change", "key"))):
            if not one[without]:
                del one[without]
        if self.delta:
            del said["blocks"]
        return json.dumps(said, indent=1, ensure_ascii=False)

    def hold_against(self, written: str, where: str) -> None:
        """Raise ``StateError`` unless the state in ``where``, described by ``written``, is of this very join."""
        old, new = read_description(written, where), json.loads(self.to_json())
        if old == new:
            return
        if old.get("text") == new["text"]:
            hold_settings(where, old.get("settings", ()), new["settings"], ANEW)
        types = [[(c["name"], c["type"]) for i in one.get("inputs", ()) for c in i["columns"]] for one in (old, new)]
        if "text" not in old:
            what = "views that are kept together"
        elif old["text"] != new["text"]:
            what = f"another query: {' '.join(str(old['text']).split())}"
        elif types[0] != types[1]:
            what = f"another schema: {_said(types[0])}; now {_said(types[1])}"
        else:
            what = "another plan of this query, as an older version of Dovetail or other watermarks make it"
        raise StateError(f"the state in {where} is of {what}; {ANEW}")


VERSIONS = ("d", "curr", "prev", "again", "first", "final", "lone", "none")


def view(version: str, side: int) -> str:
    """The name under which an epoch's statement reads one of ``VERSIONS`` of a side."""
    return f"__dt_{version}_{side + 1}"


def read_description(written: str, where: str) -> dict[str, Any]:
    """What is written beside the state in ``where``.  Raises ``StateError`` where it cannot be read."""
    try:
        found: dict[str, Any] = json.loads(written)
        version = int(found["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(f"{where} cannot be read: {error}") from error
    if version != FORMAT:
        raise StateError(f"the state in {where} has format {version}; this version of Dovetail writes {FORMAT}")
    return found


def _said(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns)
