"""A semi or anti join that needs only the least or the greatest value of each key of its right side.

    EXISTS (SELECT 1 FROM logins l WHERE l.user = o.user AND l.ts <= o.ts)     every earlier login of each order
    is TRUE wherever the first login of the user is early enough               min(l.ts) … GROUP BY l.user

(Dayal, "Of Nests and Trees", VLDB 1987, computes ``<= ANY`` by an aggregate in the same way.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dovetail.planner.expr import Scalar
from dovetail.planner.logical.alternatives import Alternatives
from dovetail.planner.logical.base import Logical
from dovetail.planner.logical.joins import EqualKey, Join, JoinKind, RecognizedJoin
from dovetail.planner.tree import plan_node


@dataclass(frozen=True)
class Bound:
    """``value sign other``, with an expression over the left side behind the sign."""

    sign: str
    other: str


@dataclass(frozen=True)
class Extreme:
    """Which value of the right rows decides whether a left row has a match: ``function(value)`` of each key.

    ``bounds``: the comparisons of this value with expressions over the left side.  ``keys``: the equalities.
    ``left`` and ``right``: conditions on one side alone.
    """

    function: Literal["min", "max"]
    value: str
    bounds: tuple[Bound, ...]
    keys: tuple[EqualKey, ...]
    left: tuple[Scalar, ...]
    right: tuple[Scalar, ...]

    @property
    def shown(self) -> str:
        """The value that decides, for plans."""
        value = f"{self.function}({self.value})"
        return f"{value} of each key" if self.keys else value

    def __str__(self) -> str:
        tests = [f"{self.function}({self.value}) {bound.sign} {bound.other}" for bound in self.bounds]
        equal = [f"{k.left} {'<=>' if k.null_safe else '='} {k.right}" for k in self.keys]
        return ", ".join([*tests, *equal, *(c.shown for c in (*self.left, *self.right))])


@plan_node
class ExtremeSemiJoin(RecognizedJoin):
    """A semi or anti join whose condition bounds a value of the right side from one end."""

    left: Logical
    right: Logical
    kind: JoinKind
    keyword: str
    condition: tuple[Scalar, ...]
    extreme: Extreme

    @property
    def plain(self) -> Join:
        return Join(self.left, self.right, self.kind, self.keyword, self.condition)

    @property
    def detail(self) -> str:
        return f"{self.kind}, {self.extreme}"


@dataclass(frozen=True)
class SemiJoins:
    """The semi joins that EXISTS in a block means; no part of the plan."""

    found: tuple[ExtremeSemiJoin, ...]


@plan_node
class ExtremeValues(Alternatives):
    """``other`` joins the least or greatest value of each key, where ``written`` has EXISTS as a value."""

    joins: SemiJoins
