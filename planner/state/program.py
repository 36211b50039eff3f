"""The program of an epoch: the half-joins between versions of the sides, and the statement that computes each.

    inner, outer    NEW A ⋈ ALL B
                    BEFORE A ⋈ NEW B
    semi            NEW A ⋉ ALL B
                    BEFORE A ⋉ NEW B        into MATCHED A
                    MATCHED A ▷ BEFORE B    into FIRST A
                    FIRST A
    outer, anti     FINAL A ▷ ALL B         into UNMATCHED A
                    UNMATCHED A ⟕ EMPTY B

A step without ``into`` returns rows of the query.  ``explain`` prints the dataflow, and an epoch runs the statements
over the views of the versions that it names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from dovetail.planner.logical import JoinKind


class Version(str, Enum):  # Python 3.10 has no StrEnum
    """The rows of a side that a step reads.  The values are part of the statements, and so of stored fingerprints."""

    NEW = "d"
    """Rows that arrived in this epoch."""
    BEFORE = "prev"
    """Rows from earlier epochs."""
    ALL = "curr"
    """Rows of both."""
    MATCHED = "again"
    """Earlier rows of a semi join that have a match among new rows."""
    FIRST = "first"
    """Those of them that had no match before."""
    FINAL = "final"
    """Rows that no later row can match."""
    UNMATCHED = "lone"
    """Those of them that have no match."""
    EMPTY = "none"
    """No rows: the other side of unmatched rows."""

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Read:
    """A version of the rows of a side, which is given by its number."""

    version: Version
    side: int

    @property
    def view(self) -> str:
        """The view by whose name statements read it."""
        return f"__dt_{self.version}_{self.side + 1}"

    @property
    def reads(self) -> tuple[Read, ...]:
        """Itself."""
        return (self,)

    @property
    def required(self) -> tuple[Read, ...]:
        """Itself: a version without rows returns none."""
        return (self,)


@dataclass(frozen=True)
class Probe:
    """A join of rows found before with one more version; ``condition`` and the values looked up ``by`` are text.

    ``time``: each row of the left matches the version of the right that is valid at this time; empty for other joins.
    """

    left: Flow
    right: Read
    kind: JoinKind
    condition: str
    by: tuple[str, ...] = ()
    time: str = ""

    @property
    def reads(self) -> tuple[Read, ...]:
        """All versions that it reads, in order."""
        return (*self.left.reads, self.right)

    @property
    def required(self) -> tuple[Read, ...]:
        """The versions without whose rows it returns none."""
        left = () if self.kind == "right" else self.left.required
        return left if self.kind in ("left", "anti") else (*left, self.right)


Flow: TypeAlias = Read | Probe


@dataclass(frozen=True)
class Step:
    """The statement ``sql`` that computes a dataflow; its rows become the version ``into``, or are returned."""

    flow: Flow
    sql: str
    into: Read | None = None

    @property
    def start(self) -> int | None:
        """The side whose new rows look up the others; None if no new rows do."""
        return next((read.side for read in self.flow.reads if read.version is Version.NEW), None)


@dataclass(frozen=True)
class EpochProgram:
    """The steps of an epoch in order; together, those without ``into`` return the rows of the query."""

    steps: tuple[Step, ...] = ()

    @property
    def returned(self) -> tuple[Step, ...]:
        """The steps that return rows of the query."""
        return tuple(step for step in self.steps if step.into is None)

    def definition(self, read: Read) -> Flow:
        """The dataflow that computes a version; the version itself if it is read from the state."""
        return next((step.flow for step in self.steps if step.into == read), read)

    @property
    def document(self) -> dict[str, Any]:
        """The statements of a join of two sides, in the form that fingerprints of states in format 2 have."""
        found: dict[str, Any] = {"pairs": [], "again": [], "unmatched": ["", ""], "lone": ["", ""], "on": []}
        for step in self.steps:
            side = _final_side(step.flow)
            if side is None:
                found["again" if step.into else "pairs"].append(step.sql)
            else:
                found["unmatched" if step.into else "lone"][side] = step.sql
        return found


def _final_side(flow: Flow) -> int | None:
    """The side whose final rows a dataflow reads."""
    return next((r.side for r in flow.reads if r.version in (Version.FINAL, Version.UNMATCHED)), None)
