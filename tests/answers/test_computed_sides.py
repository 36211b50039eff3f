"""Intervals that are computed: measured on a part that costs a scan, or not at all, and right in any case."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from comparing import assert_same, few_rows
from dovetail import Optimizer, Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What computes intervals, and what is measured of it.
SIDES = {
    "SELECT u, min(t) AS lo, max(t) AS hi FROM events GROUP BY u": "on a sample",
    "SELECT u, s, min(t) AS lo, max(t) AS hi FROM events WHERE t > 3 GROUP BY u, s HAVING count(*) > 1": "on a sample",
    "SELECT max(t) - 5 AS lo, max(t) + 5 AS hi, u FROM events GROUP BY u": "on a sample",
    "SELECT CAST(regexp_replace(note, 'x', '') AS INT) AS lo, t + 9 AS hi, u FROM events": "on a sample",
    "SELECT u, min(t) AS lo, max(t) AS hi FROM events GROUP BY ROLLUP (u)": "not measured",
    "SELECT DISTINCT u, t AS lo, t + 7 AS hi FROM events": "not measured",
    "SELECT e.u, e.t AS lo, f.t AS hi FROM events e JOIN events f ON e.u = f.u AND e.s = f.s": "not measured",
    "SELECT u, t AS lo, t + 7 AS hi FROM events WHERE s > 0": "",
    "SELECT u, t AS lo, t + 7 AS hi FROM events UNION ALL SELECT u, t, t + 2 FROM events": "",
}
QUERIES = (
    "SELECT p.id, i.u FROM p JOIN ({side}) i ON p.x BETWEEN i.lo AND i.hi",
    "WITH i AS ({side}) SELECT p.id, i.u FROM p LEFT JOIN i ON p.x BETWEEN i.lo AND i.hi",
    "WITH i AS ({side}) SELECT a.u, b.u AS other FROM i a JOIN i b ON a.lo <= b.hi AND b.lo <= a.hi",
)


@pytest.mark.parametrize("side", SIDES)
def test_computed_intervals(session: SparkSession, side: str) -> None:
    items = "id % 40 AS u, id % 3 AS s, CAST(id % 40 * 10 + id % 7 AS INT) AS t, concat('x', id) AS note"
    many = f"SELECT {items} FROM range(200)"
    far = "SELECT 40, 0, -2147483648, 'x1' UNION ALL SELECT 40, 0, 2147483647, 'x2'"  # one interval over all there is
    few_rows(session, "events", f"{many} UNION ALL {far}")
    few_rows(session, "p", "SELECT id, CAST(id * 13 % 400 AS INT) AS x FROM range(60)")
    optimizer = Optimizer(session, Options(nested_loop_pairs=0, broadcast_pairs=0, strict=True))
    for query in QUERIES:
        text = query.format(side=side)
        plan = optimizer.plan(text)
        if "ROLLUP" in side and "LEFT" in query:  # it may differ when it is read twice
            continue
        assert plan.rewritten, plan.declined
        notes = [choice for choice in plan.choices if choice.startswith("note: lengths")]
        assert notes or not SIDES[side], plan.explain("cost")
        assert all(SIDES[side] in note for note in notes)
        assert_same(session, text, plan)


@pytest.mark.parametrize("side", [side for side in SIDES if SIDES[side]])
def test_sums_over_computed_points(session: SparkSession, side: str) -> None:
    items = "id % 40 AS u, id % 3 AS s, CAST(id % 40 * 10 + id % 7 AS INT) AS t, concat('x', id) AS note"
    few_rows(session, "events", f"SELECT {items} FROM range(200) UNION ALL SELECT 41, NULL, NULL, NULL")
    few_rows(session, "q", "SELECT CAST(id * 7 AS INT) AS lo, CAST(id * 7 + 300 AS INT) AS hi, id AS w FROM range(60)")
    options = Options(nested_loop_pairs=0, broadcast_pairs=0, running_sum_matches=2, strict=True)
    text = f"SELECT count(*) AS n, sum(q.w) AS w FROM ({side}) p JOIN q ON p.lo BETWEEN q.lo AND q.hi"
    plan = Optimizer(session, options).plan(text)
    assert "CoveredBandAggregate" in plan.explain(), plan.explain("cost")
    assert_same(session, text, plan)
