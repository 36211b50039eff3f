"""Records of planning: rules that declined and warnings, each with its place in the SQL, and choices by cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dovetail.planner.errors import Place, ReasonCode


class Declined(NamedTuple):
    """A rule, or a stage of the planning, that declined to rewrite, and why.

    ``code`` names the kind of reason, where advice depends on it: ``planner/errors.py`` lists the codes.
    """

    rule: str
    reason: str
    place: Place | None = None
    code: ReasonCode | None = None


class PlanWarning(NamedTuple):
    """A warning about the user's text from a rule, or from a stage of the planning."""

    rule: str
    reason: str
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.reason} ({self.place})" if self.place else self.reason


class MeasuredLengths(NamedTuple):
    """The measured lengths of the intervals of a band on one side: the greatest length and the count of each class."""

    band: str
    side: str
    classes: tuple[tuple[float, int], ...]


class CandidatePlan(NamedTuple):
    """A candidate plan of a part of a query, with its estimates; None for what is not estimated.

    ``text``: its description with figures.  ``rows`` and ``bytes``: what is shuffled, copies included.  ``pairs``: the
    candidate pairs.  ``name``: its description without figures, if they are in the text.  ``seconds``: on one core.
    ``own``: whether it is Spark's plan of the statement as written.
    """

    text: str
    rows: float | None = None
    bytes: float | None = None
    pairs: float | None = None
    lengths: tuple[MeasuredLengths, ...] = ()
    name: str = ""
    seconds: float | None = None
    own: bool = False

    def __str__(self) -> str:
        return self.text


class Choice(NamedTuple):
    """A choice of a rule by cost: the candidate plan that it chose, and those that it rejected."""

    rule: str
    chosen: CandidatePlan
    rejected: tuple[CandidatePlan, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The choice as text, a line for each candidate plan."""
        return f"chosen: {self.chosen}", *(f"  rejected: {plan}" for plan in self.rejected)

    @property
    def replaced(self) -> CandidatePlan | None:
        """Spark's own plan, if another one was chosen; None if that is not so or not known."""
        return None if self.chosen.own else next((plan for plan in self.rejected if plan.own), None)


class Savings(NamedTuple):
    """What rewritings save, as estimated: seconds on one core, and candidate pairs; None where that is unknown."""

    seconds: float | None
    pairs: float | None

    @classmethod
    def of(cls, decisions: Iterable[object]) -> Savings:
        """The sums over the choices that replaced Spark's own plan."""
        both = [(own, d.chosen) for d in decisions if isinstance(d, Choice) and (own := d.replaced)]
        seconds = [a.seconds - b.seconds for a, b in both if a.seconds is not None and b.seconds is not None]
        pairs = [a.pairs - b.pairs for a, b in both if a.pairs is not None and b.pairs is not None]
        return cls(sum(seconds) if seconds else None, sum(pairs) if pairs else None)


class CostNote(NamedTuple):
    """A note on what was measured or estimated for a choice."""

    rule: str
    text: str

    @property
    def lines(self) -> tuple[str, ...]:
        """The note as text."""
        return (f"note: {self.text}",)
