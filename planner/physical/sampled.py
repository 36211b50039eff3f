"""Measures the selectivity of several bands on a sample of both sides."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.planner.band.axis import real
from dovetail.planner.band.condition import Band, DistanceBand, OverlapBand
from dovetail.planner.band.interval_sql import IntervalSql, double


@dataclass(frozen=True)
class Sampled:
    """A band over positions: items of either side's select list, and the condition over their names."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    condition: str


def sampled(band: Band, number: int) -> Sampled:
    """The parts of the measurement query for one band; ``number`` makes its names unique."""
    a, b, c, d = (f"{side}{number}_{n}" for side in "lr" for n in (1, 2))
    if isinstance(band, DistanceBand):
        left, right = (band.axis.real_position(leaf.text, leaf.type) for leaf in (band.left, band.right))
        ends = double(real(band.low)), double(real(band.high))
        return Sampled((f"{left} AS {a}",), (f"{right} AS {c}",), f"{a} - {c} BETWEEN {ends[0]} AND {ends[1]}")
    if isinstance(band, OverlapBand):
        (left, left_end), (right, right_end) = IntervalSql(band.in_left).ends(), IntervalSql(band.in_right).ends()
        items = (f"{left} AS {a}", f"{left_end} AS {b}"), (f"{right} AS {c}", f"{right_end} AS {d}")
        return Sampled(*items, f"{a} <= {d} AND {c} <= {b}")
    low, high = IntervalSql(band).ends()
    point = band.axis.real_position(band.point.text, band.point.type)
    if band.side == "left":
        return Sampled((f"{point} AS {a}",), (f"{low} AS {c}", f"{high} AS {d}"), f"{a} BETWEEN {c} AND {d}")
    return Sampled((f"{low} AS {a}", f"{high} AS {b}"), (f"{point} AS {c}",), f"{c} BETWEEN {a} AND {b}")
