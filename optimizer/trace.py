"""The story of a planning: what fired, what held back, how long each rule took."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.tree import Node
from rules.context import Notice, Refusal
from rules.rule import Rule


@dataclass(frozen=True)
class Step:
    """A rule that changed the plan: the node before and after, each with what stands below it."""

    batch: str
    rule: Rule
    before: Node
    after: Node


@dataclass
class Trace:
    """Steps in the order in which they happened; refusals and warnings, each once; seconds per rule."""

    steps: list[Step] = field(default_factory=list)
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[Notice, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules that fired, in order, with repetitions left out."""
        return tuple(dict.fromkeys(s.rule.name for s in self.steps))
