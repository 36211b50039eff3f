"""Records of planning: rules that declined and warnings, each with its place in the SQL, and choices by cost."""

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


class Way(NamedTuple):
    """A way to run a part of a query, with its estimates; None for what is not estimated.

    ``text``: the way with its figures.  ``rows`` and ``bytes``: what is shuffled, copies included.  ``pairs``: the
    candidate pairs.  ``name``: the way without these figures, if they are in its text.  ``seconds``: on one core.
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
    """A choice of a rule by cost: the way it chose, and the ways it rejected."""

    rule: str
    chosen: Way
    rejected: tuple[Way, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The choice as text, a line for each way."""
        return f"chosen: {self.chosen}", *(f"  rejected: {way}" for way in self.rejected)

    @property
    def replaced(self) -> Way | None:
        """Spark's own way, if another one was chosen; None if that is not so or not known."""
        return None if self.chosen.own else next((way for way in self.rejected if way.own), None)


class CostNote(NamedTuple):
    """A note on what was measured or estimated for a choice."""

    rule: str
    text: str

    @property
    def lines(self) -> tuple[str, ...]:
        """The note as text."""
        return (f"note: {self.text}",)
