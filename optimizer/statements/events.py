"""What happened with a statement: an event for logs and listeners, and the line that is logged of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from dovetail.planner.explain.records import Savings

if TYPE_CHECKING:
    from types import FrameType

    from dovetail.optimizer.planning.plan import Plan

Outcome = Literal["rewritten", "shadow", "as written", "failed"]
_OURS = frozenset({"dovetail", "pyspark", "py4j"})
_FALLBACKS = frozenset({"planning", "planning time", "circuit breaker"})


@dataclass(frozen=True)
class StatementEvent:
    """What happened with a statement.

    ``outcome``: its rewriting runs ("rewritten"); it would run, but for ``mode`` ("shadow"); the statement runs as
    written, for the reasons in ``plan.declined`` ("as written"); or its rewriting failed with ``error`` while it ran
    ("failed").  ``call_site``: file and line of the user's program, empty if there is none.
    """

    plan: Plan
    outcome: Outcome
    call_site: str
    error: str = ""

    @property
    def hash(self) -> str:
        """The hash of the statement, as in Spark's UI."""
        return self.plan.hash

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules of the rewriting, also of one that does not run."""
        return self.plan.rules if self.outcome != "as written" else ()

    @property
    def planning_seconds(self) -> float:
        """The seconds that planning took."""
        return self.plan.timings.get("total", 0.0)

    @property
    def is_fallback(self) -> bool:
        """Whether something went wrong: planning or a rewriting failed, or planning took too long."""
        return self.outcome == "failed" or any(d.rule in _FALLBACKS for d in self.plan.declined)

    @property
    def savings(self) -> Savings:
        """The estimated gain of the rewriting."""
        return Savings.of(self.plan.decisions) if self.rules else Savings(None, None)

    @property
    def reason(self) -> str:
        """Why the statement runs as written, in one line."""
        if self.plan.rejection:
            return f"Spark cannot run the statement: {' '.join(self.plan.rejection.split())}"
        reasons = "; ".join(dict.fromkeys(f"{d.rule}: {d.reason}" for d in self.plan.declined)) or "no rule matched"
        return " ".join(reasons.split())

    def to_json(self) -> dict[str, Any]:
        """The event as a row of a table, in values of JSON.  It has the text of the statement, with its literals."""
        plan = self.plan
        rewriting = plan.shadow or plan
        return {
            "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "hash": self.hash,
            "call_site": self.call_site,
            "outcome": self.outcome,
            "rules": list(self.rules),
            "declined": [{"rule": d.rule, "reason": d.reason, "place": str(d.place or "")} for d in plan.declined],
            "error": self.error,
            "planning_seconds": round(self.planning_seconds, 4),
            "catalog_requests": plan.requests,
            "seconds_saved": self.savings.seconds,
            "pairs_saved": self.savings.pairs,
            "text": plan.named.written if plan.named else plan.text,
            "needs_arguments": bool(plan.given or plan.named),
            "plan": rewriting.explain() if rewriting.rewritten else "",
            "sql": rewriting.sql() if rewriting.rewritten else "",
        }

    def __str__(self) -> str:
        """One line without the text of the statement, which may have values that nobody should see."""
        took, rules = f"{self.planning_seconds * 1000:.0f} ms", ", ".join(self.rules)
        name = f"statement {self.hash}{f' at {self.call_site}' if self.call_site else ''}"
        identity = f"({name}, {self.plan.requests} catalog requests)"
        match self.outcome:
            case "rewritten":
                return f"Rewritten in {took} by {rules} {identity}"
            case "failed":
                return f"The rewriting by {rules} failed: {self.error} ({name})"
            case "shadow":
                return f"Not rewritten, planned in {took} for {rules}: {self.reason} {identity}"
        return f"Not rewritten, planned in {took}: {self.reason} {identity}"


Listener = Callable[[StatementEvent], None]


def find_call_site() -> str:
    """The file and line of the user's program that called; empty for the command line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _OURS:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
