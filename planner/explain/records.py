"""Records of planning: rules that declined, and warnings, each with its place in the SQL."""

from __future__ import annotations

from typing import NamedTuple

from planner.errors import Place


class Declined(NamedTuple):
    """A rule, or a stage of the planning, that declined to rewrite, and why."""

    rule: str
    reason: str
    place: Place | None = None


class PlanWarning(NamedTuple):
    """A warning about the user's text from a rule, or from a stage of the planning."""

    rule: str
    reason: str
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.reason} ({self.place})" if self.place else self.reason
