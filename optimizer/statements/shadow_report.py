"""The report on a table of statements: which rewritings would gain, or have gained, most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from dovetail.optimizer.statements.log import Record
from dovetail.planner.errors import plural
from dovetail.planner.explain.records import Savings


@dataclass(frozen=True)
class ShadowStatement:
    """The runs of one statement; ``records`` are its lines in the table, oldest first, at least one."""

    records: tuple[Record, ...]

    @property
    def planned(self) -> tuple[Record, ...]:
        """Its plannings; the other lines are failures of its rewriting."""
        return tuple(r for r in self.records if r.text("outcome") != "failed")

    @property
    def last(self) -> Record:
        """Its last planning that found a rewriting, since a switch may be off in a later run; else its last one."""
        planned = self.planned or self.records
        return next((r for r in reversed(planned) if r.rules), planned[-1])

    @property
    def runs(self) -> int:
        """How often it was planned."""
        return len(self.planned)

    @property
    def errors(self) -> tuple[str, ...]:
        """The errors with which its rewriting failed."""
        return tuple(r.text("error") for r in self.records if r.text("outcome") == "failed")

    @property
    def savings(self) -> Savings:
        """The estimated gain of all runs together."""
        return Savings(*(_total(r.number(n) for r in self.planned) for n in ("seconds_saved", "pairs_saved")))

    @property
    def planning_seconds(self) -> float:
        """The median of its planning times."""
        return median(r.number("planning_seconds") or 0.0 for r in self.records)

    def to_json(self) -> dict[str, Any]:
        """The statement as JSON; null is unknown."""
        return {
            "hash": self.last.text("hash"),
            "text": self.last.text("text"),
            "call_sites": sorted({r.text("call_site") for r in self.records} - {""}),
            "runs": self.runs,
            "rules": list(self.last.rules),
            "seconds_saved": self.savings.seconds,
            "pairs_saved": self.savings.pairs,
            "planning_seconds": self.planning_seconds,
            "errors": list(self.errors),
        }


@dataclass(frozen=True)
class ShadowReport:
    """The statements of a table that are rewritten, most gain first, and the reasons of the others."""

    rewritten: tuple[ShadowStatement, ...]
    others: tuple[ShadowStatement, ...]

    @classmethod
    def of(cls, records: Iterable[Record]) -> ShadowReport:
        """Group records by the hash of their statement."""
        groups: dict[str, list[Record]] = {}
        for record in records:
            groups.setdefault(record.text("hash"), []).append(record)
        found = [ShadowStatement(tuple(sorted(group, key=lambda r: r.text("time")))) for group in groups.values()]
        rewritten = sorted((s for s in found if s.last.rules), key=_rank)
        return cls(tuple(rewritten), tuple(s for s in found if not s.last.rules))

    @property
    def declined(self) -> Counter[str]:
        """What declined the other statements, and how many: the rules of their first reasons."""
        return Counter(_first_rule(statement.last) for statement in self.others)

    @property
    def summary(self) -> str:
        """The numbers of the report, in sentences."""
        every = (*self.rewritten, *self.others)
        runs = sum(s.runs for s in every)
        failed = sum(bool(s.errors) for s in every)
        text = f"{plural(len(every), 'statement')} in {plural(runs, 'run')}: {len(self.rewritten):,} can be rewritten"
        text += f", the rewritings of {failed:,} failed" if failed else ""
        took = [r.number("planning_seconds") or 0.0 for s in every for r in s.records]
        if not took:
            return text
        return f"{text}. Planning took {median(took) * 1000:.0f} ms (median), {max(took) * 1000:,.0f} ms at most"


def _rank(statement: ShadowStatement) -> tuple[float, float, float]:
    savings = statement.savings
    return -(savings.seconds or 0.0), -(savings.pairs or 0.0), -statement.runs


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _first_rule(record: Record) -> str:
    declined = record.values.get("declined")
    first = declined[0] if isinstance(declined, list) and declined else {}
    return str(first.get("rule", "")) if isinstance(first, dict) and first else "no rule matched"
