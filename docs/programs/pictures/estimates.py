"""Intervals of one estimate that become narrower, from a simulated table."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod

from docs.programs.svg import Drawing
from dovetail.planner.estimate.clusters import products_of
from dovetail.planner.estimate.expression import Value
from dovetail.planner.estimate.groups import GroupSums, Powers
from dovetail.planner.estimate.looks import CLUSTERS, STEP, Look, first_look, next_look

_LEFT, _WIDTH, _TOP = 190, 530, 84


def estimates() -> Drawing:
    """Draw the interval of each look at a sum of 400,000 values, and the exact sum."""
    draw = random.Random(7)
    clusters = [(0.0, 0)] * CLUSTERS  # the total of each, and its size
    for _ in range(400_000):
        number = draw.randrange(CLUSTERS)
        total, size = clusters[number]
        clusters[number] = total + draw.lognormvariate(0, 1), size + 1
    exact = sum(total for total, _ in clusters)
    sums = GroupSums(products_of([(0,)]), [_powers(clusters[n : n + STEP]) for n in range(0, CLUSTERS, STEP)])
    rows = []
    look: Look | None = first_look(0.95, sums.rows, 0.05)
    while look is not None:
        for cluster in clusters[sums.read : look.read]:
            sums.add((), 1, [prod(cluster[n] for n in product) for product in sums.products])
        sums.read = look.read
        ((_, sample),) = sums.samples()
        rows.append((look.read / CLUSTERS, sample.interval(Value(sample.estimates(1)[0], {0: 1.0}), look.error)))
        look = next_look(look, None, jumps=False)
    widest = max(max(interval.high, exact) - min(interval.low, exact) for _, interval in rows)
    scale = _WIDTH / (2.2 * widest)
    drawing = Drawing(
        760,
        _TOP + 36 * len(rows) + 60,
        "Intervals that become narrower",
        "; ".join(f"{share:.1%} of the rows: {i.low:,.0f} to {i.high:,.0f}" for share, i in rows)
        + f"; exact: {exact:,.0f}",
    )
    drawing.text(20, 30, "A sum, from a sample that grows", "title")
    drawing.text(20, 54, "rows read", "note")
    middle = _LEFT + _WIDTH / 2
    bottom = _TOP + 36 * len(rows)
    drawing.line([(middle, 64), (middle, bottom)], "axis dashed")
    drawing.text(middle, 54, f"exact: {exact:,.0f}", "note", "middle")
    for n, (share, interval) in enumerate(rows):
        y = _TOP + 36 * n
        low, high, at = (middle + (v - exact) * scale for v in (interval.low, interval.high, interval.estimate))
        drawing.text(20, y + 5, f"{share:.1%}", "strong")
        drawing.text(84, y + 5, f"± {interval.error:.2%}", "note")
        drawing.line([(low, y), (high, y)], "a line")
        drawing.dot(at, y, "a")
    drawing.text(20, bottom + 20, "Each look reads further rows. The next one would be exact: all rows are read then.")
    drawing.text(20, bottom + 40, "An estimate ends at the first look that is narrow enough, or whenever you leave it.")
    return drawing


def _powers(clusters: Sequence[tuple[float, int]]) -> Powers:
    one, two, three = (sum(size**n for _, size in clusters) for n in (1, 2, 3))
    return one, two, three
