"""Computes when rows of a stream expire: from which watermark on no later row of another stream can match them.

b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR     a row of a, once the watermark of b has passed a.ts + 1h
a row of b, once that of a has passed b.ts
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from dovetail.planner.band.linear import Leaf
from dovetail.planner.catalog.settings import NameCase
from dovetail.planner.errors import Refused
from dovetail.planner.state.bounds import Bound
from dovetail.rules.analysis.same_source import base_value
from dovetail.rules.stream.relations import Relation
from dovetail.rules.stream.stream_blocks import Shape

_TIMES = ("timestamp", "timestamp_ntz")
_NEVER = -(2**63)


@dataclass(frozen=True)
class Expiry:
    """When a row of a side expires: when the watermark reaches ``position``, as SQL; ``description`` is for readers.

    Both are empty if rows never expire.
    """

    position: str = ""
    description: str = ""


def position_of(bound: Bound, leaf: Leaf, relation: Relation) -> str:
    """Return the position of a leaf of a bound on its axis, over the columns of its stream."""
    return relation.over_base(bound.axis.position(leaf.text, leaf.type))


def latest(expires: Sequence[Expiry], prefix: str = "the later of ") -> Expiry:
    """Return the latest of several expiries; never, if one of them is never."""
    if not all(e.position for e in expires):
        return Expiry()
    ends = dict.fromkeys(expires)
    if len(ends) == 1:
        return expires[0]
    words = " and ".join(dict.fromkeys(e.description for e in ends))
    return Expiry(f"greatest({', '.join(e.position for e in ends)})", f"{prefix}{words}")


@dataclass(frozen=True)
class Expiries:
    """The expiries of the rows of a join, by side.

    ``side_conditions`` are the conjuncts of ON that name one side alone, over its stream, by side.  The methods raise
    ``Refused``, ``Unsupported``.
    """

    relations: tuple[Relation, ...]
    bounds: tuple[Bound, ...]
    shape: Shape
    side_conditions: Sequence[tuple[str, ...]]
    names: NameCase

    def matched(self, side: int) -> Expiry:
        """Return when a row of a side can match no later row of any other side."""
        return latest([self._by(side, other) for other in range(len(self.relations)) if other != side])

    def needed(self, side: int, expires: list[Expiry]) -> Expiry:
        """Return when a row of a side is no longer needed: when the rows that it matches have expired, too."""
        expiry, other = expires[side], 1 - side
        if other not in self.shape.match_tracked or not expiry.position:
            return expiry
        ends: list[tuple[str, str]] = []
        for timed in self._timed(other, side):
            for bound in self.bounds:
                if bound.small_side == other and bound.small.key == timed.large.key:
                    more = -floor(bound.least) - floor(timed.least)
                    position = position_of(bound, bound.large, self.relations[side])
                    ends.append(self._later(bound, position, more, side))
        if not ends:
            return Expiry()
        last = f"least({', '.join(p for p, _ in ends)})" if len(ends) > 1 else ends[0][0]
        words = f"the earlier of {' and '.join(s for _, s in ends)}" if len(ends) > 1 else ends[0][1]
        if last == expiry.position:
            return expiry
        return Expiry(f"greatest({expiry.position}, {last})", f"the later of {expiry.description} and {words}")

    def _timed(self, side: int, by: int) -> Iterator[Bound]:
        """Yield the bounds by which the watermark of another side expires rows of a side."""
        other = self.relations[by].stream
        if other.event_time is None or other.time not in _TIMES:
            return
        ticking = base_value(other.event_time, self.names)
        for bound in self.bounds:
            if (bound.small_side, bound.large_side) != (by, side) or bound.axis.name != other.time:
                continue
            try:
                if self.relations[by].over_base(bound.small.text) == ticking:
                    yield bound
            except Refused:
                continue

    def _by(self, side: int, other: int) -> Expiry:
        """Return when a row of a side can match no later row of another."""
        found: dict[str, str] = {}
        missing: dict[str, None] = {}
        for bound in self._timed(side, other):
            position = position_of(bound, bound.large, self.relations[side])
            value, description = self._later(bound, position, -floor(bound.least), side)
            found[value] = description
            missing[f"{position} IS NULL"] = None
        if not found:
            return Expiry()
        least = f"least({', '.join(found)})" if len(found) > 1 else next(iter(found))
        description = f"the earlier of {' and '.join(found.values())}" if len(found) > 1 else found[least]
        if side not in self.shape.preserved:
            return Expiry(least, description)
        # A row without a time, or that fails a condition on itself, has no match: it is final on arrival.
        missing.update((f"NOT coalesce({c}, false)", None) for c in self.side_conditions[side])
        return Expiry(f"CASE WHEN {' OR '.join(missing)} THEN CAST({_NEVER} AS BIGINT) ELSE {least} END", description)

    def _later(self, bound: Bound, position: str, more: int, side: int) -> tuple[str, str]:
        """Return a position so many units later, as SQL and in words."""
        description = self.relations[side].over_base(bound.large.text)
        if not more:
            return position, description
        sign = "+" if more > 0 else "-"
        return f"{position} {sign} {abs(more)}", f"{description} {sign} {bound.axis.human(abs(Fraction(more)))}"
