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

LOOKS = 4
_FIRST = (128, 4096)  # clusters, at least and at most
_UNKNOWN = 1024  # clusters, of a relation of which nobody knows how many rows it has
_FIRST_ROWS = 4096  # for an error of 5 %; they miss a value of one row in 1,000 with a probability of 2 %
_GROWTH = 5
_LEAST_GROWTH = 2  # where the last look predicts how many clusters suffice
_RESERVE = 1.2  # more than the clusters that the last look predicts, since its variance is an estimate


class Look(NamedTuple):
    """One look: the clusters that are read by then, the probability with which its interval may miss, its number."""

    read: int
    error: float
    number: int = 1


def first_look(confidence: float, rows: float | None, error: float) -> Look:
    """The first look at a relation of so many ``rows``, None if their number is not known.

    ``error``: the relative error that is wanted.  The look reads the rows that suffice for it where the standard
    deviation of the values is about their mean.
    """
    fewest, most = _FIRST
    wanted = _FIRST_ROWS * (0.05 / error) ** 2
    read = min(most, max(fewest, ceil(CLUSTERS * wanted / rows))) if rows else _UNKNOWN
    return Look(read, (1 - confidence) / LOOKS)


def next_look(look: Look, factor: float | None, *, jumps: bool) -> Look | None:
    """The next look, or None if all rows are to be read: a sample of more than half of the clusters saves nothing.

    ``factor``: the width that the widest interval is to have, relative to the one that it has; None if it is unknown.
    ``jumps``: all rows are read as soon as no sample is predicted to suffice; otherwise the sample grows as before.
    """
    half = CLUSTERS // 2
    sufficient, growth = 0, _GROWTH
    if factor is not None:  # a width is proportional to the root of 1/n - 1/K
        sufficient = ceil(_RESERVE / (1 / CLUSTERS + factor**2 * (1 / look.read - 1 / CLUSTERS)))
        growth = _LEAST_GROWTH if sufficient <= half else _GROWTH
    if sufficient > half:
        if jumps:
            return None
        sufficient = 0
    read = max(sufficient, growth * look.read)
    return None if read > half or look.number == LOOKS else Look(read, look.error, look.number + 1)
