"""Selects segments of the state: those that a probe reads, those that have expired, and those to compact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dovetail.planner.state.manifest import Segment, Span
from dovetail.planner.state.spec import Reach

FAN_IN = 8
MERGED_ROWS = 4_000_000
SHARE = 4  # a segment of rows that leave is merged up to a fourth of all, and so leaves in good time
SLACK = 16  # rows that have had their time are let lie up to a sixteenth of all
FEW_ROWS = 250_000  # a job takes longer than to read so many more rows in each epoch


def reachable(
    segments: Iterable[Segment], side: int, probing: Sequence[Span], reaches: Sequence[Reach]
) -> tuple[Segment, ...]:
    """Return the segments of ``side`` that may match rows of the other side, whose marks span ``probing``."""
    return tuple(s for s in segments if all(_touches(s, side, probing, reach) for reach in reaches))


def _touches(segment: Segment, side: int, probing: Sequence[Span], reach: Reach) -> bool:
    (small_side, small), (_, large) = reach.small, reach.large
    least, greatest = (
        (segment.marks[small], probing[large]) if small_side == side else (probing[small], segment.marks[large])
    )
    return least is not None and greatest is not None and greatest[1] - least[0] >= reach.least


def expired(segments: Iterable[Segment], watermark: int | None, oldest: int | None) -> tuple[Segment, ...]:
    """Return the expired segments: no row can match any more, or all arrived before ``oldest`` (milliseconds)."""
    return tuple(
        s
        for s in segments
        if (watermark is not None and s.expires is not None and s.expires <= watermark * 1000)
        or (oldest is not None and s.arrived < oldest)
    )


def to_rewrite(segments: Sequence[Segment], watermark: int | None, *, versions: bool = False) -> tuple[Segment, ...]:
    """Return the segments to compact in this epoch: those whose rows have mostly expired, or else a full tier.

    An epoch's work on an input stays bounded: it is one segment, or several that have ``MERGED_ROWS`` rows together.
    ``versions`` are all compacted once they have doubled: only then can replaced versions be found.  So at most twice
    the needed rows stay, and those of a few epochs.
    """
    if versions and _doubled(segments):
        return tuple(segments)
    return _dying(segments, watermark) or _tier(segments)


def _doubled(segments: Sequence[Segment]) -> bool:
    """Whether the other segments have as many rows as the largest one, and there are enough of them to merge all."""
    rows = [s.rows for s in segments]
    return len(rows) >= FAN_IN and sum(rows) >= 2 * max(rows)


def _dying(segments: Sequence[Segment], watermark: int | None) -> tuple[Segment, ...]:
    """Return the segments of which half the rows have expired, if these are more than the tolerated amount."""
    if watermark is None:
        return ()
    half = [s for s in segments if s.half is not None and s.half <= watermark * 1000]
    rows = sum(s.rows for s in half)
    if rows * SLACK <= 2 * sum(s.rows for s in segments) or (rows < FEW_ROWS and len(half) < FAN_IN):
        return ()
    first, *others = sorted(half, key=lambda s: -s.rows)
    taken, rows = [first], first.rows
    for segment in others:
        if rows + segment.rows <= MERGED_ROWS:
            taken.append(segment)
            rows += segment.rows
    return tuple(s for s in segments if s in taken)


def _tier(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """The oldest segments of one tier, once there are enough of them."""
    total = sum(s.rows for s in segments)
    for tier in sorted({s.tier for s in segments}):
        group = [s for s in segments if s.tier == tier][:FAN_IN]
        rows = sum(s.rows for s in group)
        leaves = any(s.expires is not None for s in group)
        if len(group) == FAN_IN and rows <= MERGED_ROWS and not (leaves and rows * SHARE > total):
            return tuple(group)
    return ()
