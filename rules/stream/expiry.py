"""When a row of a stream can leave: once the watermark says that what still arrives on the others is too late for it.

b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR     a row of a, once the watermark of b has passed a.ts + 1h
a row of b, once that of a has passed b.ts
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from sqlglot import exp

from planner.band.linear import Leaf
from planner.errors import Unsupported
from planner.expr import sql
from planner.sql.names import Unresolved
from planner.state.bounds import Bound
from planner.state.stream import Stream
from rules.stream.stream_blocks import Shape

OverBase = Callable[[str, int], str]

_TIMES = ("timestamp", "timestamp_ntz")
_NEVER = -(2**63)


@dataclass(frozen=True)
class Expiry:
    """When a row of a side can match no more: once the watermark has reached ``position``, as SQL; and in words.

    Nothing where that is never.
    """

    position: str = ""
    said: str = ""


def position_of(bound: Bound, leaf: Leaf, side: int, over_base: OverBase) -> str:
    """Where a leaf of a bound lies on its axis, in terms of its stream."""
    return over_base(bound.axis.position(leaf.text, leaf.type), side)


def latest(expires: Sequence[Expiry], said: str = "the later of ") -> Expiry:
    """The last of several ends, which never comes where one of them does not."""
    if not all(e.position for e in expires):
        return Expiry()
    ends = dict.fromkeys(expires)
    if len(ends) == 1:
        return expires[0]
    words = " and ".join(dict.fromkeys(e.said for e in ends))
    return Expiry(f"greatest({', '.join(e.position for e in ends)})", f"{said}{words}")


@dataclass(frozen=True)
class Expiries:
    """The ends of the rows of a join's sides.

    ``over_base`` says an expression over one side in terms of its stream; ``own`` are the conjuncts of ON that name one
    side alone, so said, by side.  What is asked raises ``Unresolved``, ``Unsupported``.
    """

    streams: tuple[Stream, ...]
    bounds: tuple[Bound, ...]
    shape: Shape
    over_base: OverBase
    own: Sequence[tuple[str, ...]]
    fold: Callable[[str], str]

    def matched(self, side: int) -> Expiry:
        """When a row of a side can match nothing more of any other."""
        return latest([self._by(side, other) for other in range(len(self.streams)) if other != side])

    def needed(self, side: int, expires: list[Expiry]) -> Expiry:
        """When a row of a side is needed no more, once whatever it matches has had its time, too."""
        own, other = expires[side], 1 - side
        if other not in self.shape.kept or not own.position:
            return own
        ends: list[tuple[str, str]] = []
        for timed in self._timed(other, side):
            for bound in self.bounds:
                if bound.small_side == other and bound.small.key == timed.large.key:
                    more = -floor(bound.least) - floor(timed.least)
                    position = position_of(bound, bound.large, side, self.over_base)
                    ends.append(self._later(bound, position, more, side))
        if not ends:
            return Expiry()
        last = f"least({', '.join(p for p, _ in ends)})" if len(ends) > 1 else ends[0][0]
        words = f"the earlier of {' and '.join(s for _, s in ends)}" if len(ends) > 1 else ends[0][1]
        if last == own.position:
            return own
        return Expiry(f"greatest({own.position}, {last})", f"the later of {own.said} and {words}")

    def _timed(self, side: int, by: int) -> Iterator[Bound]:
        """The bounds that say when rows of a side match nothing more of another, whose watermark is the lesser."""
        other = self.streams[by]
        if other.event_time is None or other.time not in _TIMES:
            return
        ticking = sql(exp.column(self.fold(other.event_time), quoted=True))
        for bound in self.bounds:
            if (bound.small_side, bound.large_side) != (by, side) or bound.axis.name != other.time:
                continue
            try:
                if self.over_base(bound.small.text, by) == ticking:
                    yield bound
            except (Unresolved, Unsupported):
                continue

    def _by(self, side: int, other: int) -> Expiry:
        """When a row of a side can match nothing more of another."""
        found: dict[str, str] = {}
        missing: dict[str, None] = {}
        for bound in self._timed(side, other):
            position = position_of(bound, bound.large, side, self.over_base)
            value, said = self._later(bound, position, -floor(bound.least), side)
            found[value] = said
            missing[f"{position} IS NULL"] = None
        if not found:
            return Expiry()
        least = f"least({', '.join(found)})" if len(found) > 1 else next(iter(found))
        said = f"the earlier of {' and '.join(found.values())}" if len(found) > 1 else found[least]
        if side not in self.shape.lone:
            return Expiry(least, said)
        # Without a time, or against a condition on itself, it matches nothing: final as it comes.
        missing.update((f"NOT coalesce({c}, false)", None) for c in self.own[side])
        return Expiry(f"CASE WHEN {' OR '.join(missing)} THEN CAST({_NEVER} AS BIGINT) ELSE {least} END", said)

    def _later(self, bound: Bound, position: str, more: int, side: int) -> tuple[str, str]:
        """A position so many units later, as SQL and in words."""
        if not more:
            return position, self.over_base(bound.large.text, side)
        sign = "+" if more > 0 else "-"
        said = f"{self.over_base(bound.large.text, side)} {sign} {bound.axis.human(abs(Fraction(more)))}"
        return f"{position} {sign} {abs(more)}", said
