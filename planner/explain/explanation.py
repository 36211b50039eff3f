"""The parts of an explanation: one record, from which JSON and pages are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dovetail.planner.errors import QueryError
from dovetail.planner.explain.measured import MeasuredRuns
from dovetail.planner.explain.printer import ShownStep, to_json
from dovetail.planner.explain.records import Choice, CostNote, Declined, PlanWarning
from dovetail.planner.tree import Node


@dataclass(frozen=True)
class Explanation:
    """What is known of a planned statement.

    ``text``: the statement as written; ``sql``: what Spark runs.  ``before``: the plan as parsed; ``after``: the plan
    that runs; None for a statement that was not parsed.  ``timings``: seconds per stage; ``rule_seconds``: per rule.
    ``from_cache``: the plan was made earlier, so that neither has the times of its rules.
    ``notes``: further facts, a sentence each.  ``queries``: further queries with their titles, for views that are
    computed from stored rows.  ``runs``: a measured run of the statement, and one of its rewriting.
    """

    text: str
    sql: str
    rewritten: bool
    before: Node | None = None
    after: Node | None = None
    steps: tuple[ShownStep, ...] = ()
    decisions: tuple[Choice | CostNote, ...] = ()
    declined: tuple[Declined, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()
    error: QueryError | None = None
    timings: Mapping[str, float] = field(default_factory=dict)
    rule_seconds: Mapping[str, float] = field(default_factory=dict)
    from_cache: bool = False
    notes: tuple[str, ...] = ()
    queries: tuple[tuple[str, str], ...] = ()
    runs: MeasuredRuns | None = None

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules that fired, in order, without duplicates."""
        return tuple(dict.fromkeys(step.rule.name for step in self.steps))

    def to_json(self) -> dict[str, Any]:
        """Convert the explanation to nested dicts.  It has no timings, so that it is the same each time."""
        return {
            "rewritten": self.rewritten,
            "rules": list(self.rules),
            "choices": [line for decision in self.decisions for line in decision.lines],
            "declined": [_record_to_json(d) for d in self.declined],
            "warnings": [_record_to_json(w) for w in self.warnings],
            **({"error": str(self.error)} if self.error else {}),
            "plan": to_json(self.after) if self.after is not None else None,
            "sql": self.sql,
        }


def _record_to_json(record: Declined | PlanWarning) -> dict[str, Any]:
    line, column = (record.place.line, record.place.column) if record.place else (None, None)
    return {"rule": record.rule, "reason": record.reason, "line": line, "column": column}
