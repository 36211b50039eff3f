"""Which segments a probe has to open, which have had their time, and which are merged into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planner.state.manifest import Segment, Span
from planner.state.spec import Reach

FAN_IN = 8
MERGED_ROWS = 4_000_000


def reachable(
    segments: Iterable[Segment], side: int, probing: Sequence[Span], reaches: Sequence[Reach]
) -> tuple[Segment, ...]:
    """The segments of ``side`` that may hold a match for rows of the other side, whose marks span ``probing``."""
    return tuple(s for s in segments if all(_touches(s, side, probing, reach) for reach in reaches))


def _touches(segment: Segment, side: int, probing: Sequence[Span], reach: Reach) -> bool:
    (small_side, small), (_, large) = reach.small, reach.large
    least, greatest = (
        (segment.marks[small], probing[large]) if small_side == side else (probing[small], segment.marks[large])
    )
    return least is not None and greatest is not None and greatest[1] - least[0] >= reach.least


def expired(segments: Iterable[Segment], watermark: int | None, oldest: int | None) -> tuple[Segment, ...]:
    """The segments of which no row can match any more, or all of which arrived before ``oldest`` (milliseconds)."""
    return tuple(
        s
        for s in segments
        if (watermark is not None and s.expires is not None and s.expires <= watermark * 1000)
        or (oldest is not None and s.arrived < oldest)
    )


def to_merge(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """The oldest segments of one tier, once there are enough of them; at most one merge to an epoch and input.

    What is merged has at most ``MERGED_ROWS`` rows, so that an epoch's work stays bounded.
    """
    for tier in sorted({s.tier for s in segments}):
        group = [s for s in segments if s.tier == tier][:FAN_IN]
        if len(group) == FAN_IN and sum(s.rows for s in group) <= MERGED_ROWS:
            return tuple(group)
    return ()
