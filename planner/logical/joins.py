"""Joins, and the names that rules give them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from dovetail.planner.band.condition import Band
from dovetail.planner.errors import Place
from dovetail.planner.expr import Scalar
from dovetail.planner.hints.blocks import SideHint
from dovetail.planner.keys.key_set import KeyScheme
from dovetail.planner.logical.base import Logical, conjunction
from dovetail.planner.tree import plan_node

JoinKind = Literal["inner", "cross", "left", "right", "full", "semi", "anti"]

JOIN_KEYWORDS: dict[JoinKind, str] = {
    "inner": "JOIN",
    "cross": "CROSS JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}


@dataclass(frozen=True)
class EqualKey:
    """An equality of a condition: its left and right operand, of one type; ``null_safe``: NULL equals NULL."""

    left: str
    right: str
    null_safe: bool = False


@plan_node
class Join(Logical):
    """A join: ``keyword`` as written (``,`` for a comma); ``condition`` is the list of its conjuncts.

    ``comma``: the precedence of a comma that the user wrote: ``left`` if commas and joins associate from left to right,
    ``last`` if commas bind after all joins.  It is empty for a comma that a rule wrote, which is printed as a comma
    only if the precedence makes no difference.  ``place``: the place of the keyword in the user's text.
    """

    left: Logical
    right: Logical
    kind: JoinKind
    keyword: str
    condition: tuple[Scalar, ...] = ()
    using: tuple[str, ...] = ()
    natural: bool = False
    comma: Literal["", "left", "last"] = ""
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def detail(self) -> str:
        kind = f"natural {self.kind}" if self.natural else self.kind
        if self.using:
            return f"{kind}, using {', '.join(self.using)}"
        return f"{kind}, on {conjunction(self.condition)}" if self.condition else kind

    @property
    def output(self) -> tuple[str, ...]:
        return self.left.output if self.kind in ("semi", "anti") else self.left.output + self.right.output


class RecognizedJoin(Logical):
    """A join that a rule has recognized, and that a statement prints as it was."""

    @property
    def plain(self) -> Logical:
        """The join as written."""
        raise NotImplementedError

    @property
    def printed(self) -> Logical:
        return self.plain

    @property
    def output(self) -> tuple[str, ...]:
        return self.plain.output


@plan_node
class BandJoin(RecognizedJoin):
    """A join by a band: ``condition`` has all conjuncts of the join, those of the ``band`` included."""

    left: Logical
    right: Logical
    kind: JoinKind
    band: Band
    condition: tuple[Scalar, ...]
    others: tuple[Band, ...] = ()  # further bands of the same condition
    schemes: tuple[KeyScheme, ...] = ()  # the keys of further conjuncts
    bin_width: Fraction | None = None  # the width of a RANGE_JOIN hint, in units of the band's axis
    hints: tuple[SideHint, ...] = ()  # all hints for this join, the one that set ``bin_width`` first

    @property
    def plain(self) -> Join:
        return Join(self.left, self.right, self.kind, JOIN_KEYWORDS[self.kind], self.condition)

    @property
    def detail(self) -> str:
        band = set(self.band.conjuncts)
        rest = [c.shown for c in self.condition if c not in band]
        width = [f"bins of {self.band.axis.human(self.bin_width)}"] if self.bin_width is not None else []
        hint_texts = dict.fromkeys(h.hint.text for h in self.hints if h.hint.strategy)
        return ", ".join([self.kind, *rest, str(self.band), *width, *hint_texts])


@plan_node
class KeyedJoin(RecognizedJoin):
    """A join by keys of conjuncts that are no equalities: ``condition`` has all conjuncts of the join."""

    left: Logical
    right: Logical
    kind: JoinKind
    schemes: tuple[KeyScheme, ...]
    condition: tuple[Scalar, ...]

    @property
    def plain(self) -> Join:
        return Join(self.left, self.right, self.kind, JOIN_KEYWORDS[self.kind], self.condition)

    @property
    def detail(self) -> str:
        return f"{self.kind}, on {conjunction(self.condition)}"


@plan_node
class LateralView(Logical):
    """LATERAL VIEW [OUTER] generator(…) name AS columns."""

    child: Logical
    text: Scalar
    alias: str
    columns: tuple[str, ...] = ()

    @property
    def detail(self) -> str:
        return self.text.shown.removeprefix("LATERAL VIEW ")

    @property
    def output(self) -> tuple[str, ...]:
        return (*self.child.output, f"{self.alias}.*")
