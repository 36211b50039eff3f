"""Records of planning: rules that declined, and warnings, each with its place in the SQL."""

from __future__ import annotations

from typing import NamedTuple

from planner.errors import Place, ReasonCode


class Declined(NamedTuple):
    """A rule, or a stage of the planning, that declined to rewrite, and why.

    ``code`` names the kind of reason, where advice depends on it: ``planner/errors.py`` lists the codes.
    """

    rule: str
    reason: str
    place: Place | None = None
    code: ReasonCode | None = None


class Estimate(NamedTuple):
    """The estimated work of a join as Spark plans it, and as rewritten; None for what is unknown.

    ``spark_pairs`` and ``pairs`` are rows compared, ``bytes`` what the rewriting shuffles unless a side is broadcast,
    and ``spark_seconds`` and ``seconds`` are of one core.
    """

    rule: str
    place: Place | None
    spark_pairs: float | None
    pairs: float | None = None
    bytes: float | None = None
    spark_seconds: float | None = None
    seconds: float | None = None


class PlanWarning(NamedTuple):
    """A warning about the user's text from a rule, or from a stage of the planning."""

    rule: str
    reason: str
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.reason} ({self.place})" if self.place else self.reason
