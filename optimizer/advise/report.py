"""The report on a workload, as data: a record for each statement, and the report as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dovetail.planner.errors import Place, ReasonCode, plural
from dovetail.planner.explain.measured import MeasuredRuns
from dovetail.planner.explain.records import CandidatePlan, Choice, Savings

Status = Literal["rewritten", "nested loop", "declined", "problem", "not read", "unchanged", "not a query"]
FIRST = Place(1, 1)
_COUNTED: dict[Status, str] = {
    "rewritten": "rewritten",
    "nested loop": "with nested loops that remain",
    "declined": "declined",
    "problem": "not planned",
    "not read": "not read",
    "unchanged": "unchanged",
    "not a query": "without a query",
}
_ORDER: dict[Status, int] = {status: number for number, status in enumerate(_COUNTED)}


@dataclass(frozen=True)
class LoopFinding:
    """A nested loop of a statement as written; ``removed``: the rewriting runs without it."""

    place: Place
    kind: str
    left: str
    right: str
    condition: str
    pairs: int | None
    removed: bool
    remedy: str


@dataclass(frozen=True)
class DeclinedFinding:
    """A reason why a rule declined, and what to do about it."""

    place: Place
    rule: str
    code: ReasonCode | None
    reason: str
    remedy: str


@dataclass(frozen=True)
class StatementAdvice:
    """The advice on one statement.

    ``problem``: why it could not be planned or read.  ``verified``: the result of --verify, and ``runs`` what --measure
    found.  ``text`` begins at ``start``; ``rewriting``: what Spark runs instead, empty if it runs the text.
    """

    file: str
    place: Place
    status: Status
    rules: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    loops: tuple[LoopFinding, ...] = ()
    declined: tuple[DeclinedFinding, ...] = ()
    problem: str = ""
    verified: str = ""
    same: bool | None = None
    runs: MeasuredRuns | None = None
    text: str = ""
    start: Place = FIRST
    rewriting: str = ""

    @property
    def where(self) -> str:
        """The file, line and column."""
        return f"{self.file}:{self.place.line}:{self.place.column}"

    @property
    def replaced(self) -> tuple[tuple[CandidatePlan, CandidatePlan], ...]:
        """Spark's own plan and the chosen plan of each choice by cost that replaced Spark's."""
        return tuple((own, choice.chosen) for choice in self.choices if (own := choice.replaced))

    @property
    def savings(self) -> Savings:
        """The estimated gain of the rewriting."""
        return Savings.of(self.choices)

    @property
    def bytes_shuffled(self) -> float | None:
        """The bytes that the rewriting shuffles unless a side is broadcast; None where that is unknown."""
        known = [chosen.bytes for _, chosen in self.replaced if chosen.bytes is not None]
        return sum(known) if known else None

    @property
    def remaining_loops(self) -> tuple[LoopFinding, ...]:
        """The nested loops that Spark runs even with Dovetail."""
        return tuple(loop for loop in self.loops if not loop.removed)

    @property
    def rank(self) -> tuple[float, ...]:
        """The sort key: rewritten ones by gain, then nested loops by pairs."""
        pairs = max((loop.pairs or 0 for loop in self.loops), default=0)
        return (_ORDER[self.status], -(self.savings.seconds or 0.0), -(self.savings.pairs or 0.0), -pairs)

    def to_json(self) -> dict[str, Any]:
        """The record as JSON; null is unknown."""
        return {
            "file": self.file,
            **_place(self.place),
            "status": self.status,
            "rules": list(self.rules),
            "pairs_saved": self.savings.pairs,
            "bytes_shuffled": self.bytes_shuffled,
            "seconds_saved": self.savings.seconds,
            "nested_loops": [_with_line_and_column(loop) for loop in self.loops],
            "declined": [_with_line_and_column(reason) for reason in self.declined],
            **({"problem": self.problem} if self.problem else {}),
            **({"verified": self.verified, "same": self.same} if self.verified else {}),
            **({"seconds_measured": self.runs.seconds} if self.runs else {}),
        }


@dataclass(frozen=True)
class Report:
    """The advice on a workload, most gain first; ``planned_against``: the catalog file, or Spark."""

    statements: tuple[StatementAdvice, ...]
    planned_against: str
    seconds: float

    @classmethod
    def of(cls, statements: list[StatementAdvice], planned_against: str, seconds: float) -> Report:
        """A report in the order of gain; statements of equal gain stay in their order."""
        return cls(tuple(sorted(statements, key=lambda s: s.rank)), planned_against, seconds)

    def count(self, status: Status) -> int:
        """The number of statements with this status."""
        return sum(s.status == status for s in self.statements)

    @property
    def summary(self) -> str:
        """The numbers of the report, in one sentence: each statement is counted once."""
        counts = [f"{number} {text}" for status, text in _COUNTED.items() if (number := self.count(status))]
        text = f"{plural(len(self.statements), 'statement')}: {', '.join(counts)}"
        loops = sum(len(s.loops) for s in self.statements)
        left = sum(len(s.remaining_loops) for s in self.statements)
        return f"{text}; {plural(loops, 'nested loop')}, {left} not removed" if loops else text

    def to_json(self) -> dict[str, Any]:
        """The report as one JSON object."""
        return {
            "planned_against": self.planned_against,
            "seconds": round(self.seconds, 3),
            "statements": [s.to_json() for s in self.statements],
        }


def _place(place: Place) -> dict[str, int]:
    return {"line": place.line, "column": place.column}


def _with_line_and_column(finding: LoopFinding | DeclinedFinding) -> dict[str, Any]:
    fields = vars(finding).copy()
    return {**_place(fields.pop("place")), **fields}
