"""The trace of a planning: the rules that fired or declined, the warnings, and the seconds of each rule."""

from __future__ import annotations

from dataclasses import dataclass, field

from dovetail.planner.explain.records import Declined, PlanWarning
from dovetail.planner.tree import Node
from dovetail.rules.rule import Rule


@dataclass(frozen=True)
class Step:
    """One application of a rule: the subtree before and after."""

    batch: str
    rule: Rule
    before: Node
    after: Node


@dataclass
class Trace:
    """The steps in order; rules that declined and warnings, without duplicates; seconds per rule."""

    steps: list[Step] = field(default_factory=list)
    declined: tuple[Declined, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules that fired, in order, without duplicates."""
        return tuple(dict.fromkeys(s.rule.name for s in self.steps))
