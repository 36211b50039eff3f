"""When a sample that grows is looked at, and how certain each look has to be.

To stop at the first look whose interval is narrow enough misses more often than one interval does, since there are as
many occasions to miss as there are looks.  So the error is divided among the looks (Bonferroni; Pocock 1977 spends it
alike): the intervals of all looks hold together with the confidence, and therefore that of the look which stops, too.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

CLUSTERS = 65_536
"""Clusters of a relation; one look reads a number of them."""

STEP = 32
"""A look ends behind a multiple of this number of clusters."""

LOOKS = 4
_FIRST = (128, 4096)  # clusters, at least and at most
_FIRST_ROWS = 5_000  # for an error of 5 %; they miss a value of one row in 1,000 with a probability of 1 %
_GROWTH = 5.0
_LEAST_GROWTH = 1.5  # where the last look predicts how many clusters suffice
_RESERVE = 1.1  # more than the clusters that the last look predicts, since its variance is an estimate


class Look(NamedTuple):
    """One look: the clusters that are read by then, the probability with which its interval may miss, its number."""

    read: int
    error: float
    number: int = 1


def first_look(confidence: float, rows: float, error: float) -> Look:
    """The first look at a relation of so many ``rows``; ``error`` is the relative error that is wanted.

    It reads the rows that suffice for 5 %, if values differ by as much as they are large; for a smaller error not so
    many as that would need, since most values differ less, and the next look reads what this one predicts.
    """
    fewest, most = _FIRST
    wanted = _FIRST_ROWS * 0.05 / error
    return Look(min(most, max(fewest, _whole(CLUSTERS * wanted / max(rows, 1)))), (1 - confidence) / LOOKS)


def next_look(look: Look, factor: float | None, *, jumps: bool) -> Look | None:
    """The next look, or None if all rows are to be read: a sample of more than half of the clusters saves nothing.

    ``factor``: the width that the widest interval is to have, relative to the one that it has; None if it is unknown.
    ``jumps``: all rows are read as soon as no sample is predicted to suffice; otherwise the sample grows as before.
    """
    half = CLUSTERS // 2
    sufficient, growth = 0.0, _GROWTH
    if factor is not None:  # a width is proportional to the root of 1/n - 1/K
        sufficient = _RESERVE / (1 / CLUSTERS + factor**2 * (1 / look.read - 1 / CLUSTERS))
        growth = _LEAST_GROWTH if sufficient <= half else _GROWTH
    if sufficient > half:
        if jumps:
            return None
        sufficient = 0.0
    read = _whole(max(sufficient, growth * look.read))
    return None if read > half or look.number == LOOKS else Look(read, look.error, look.number + 1)


def _whole(clusters: float) -> int:
    return STEP * ceil(clusters / STEP)
