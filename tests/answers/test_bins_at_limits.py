"""Bins where random tables seldom lead: one width for intervals of two sides, and the limits of BIGINT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from comparing import both
from dovetail import Optimizer, Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORCED = Options(force=True, strict=True)
ENDS = {
    "INT": "CAST({} AS INT)",
    "BIGINT": "{} * 1000000007L",
    "DOUBLE": "CAST({} AS DOUBLE) / 7",
    "TIMESTAMP": "timestamp_seconds({} * 3600)",
}
INTERVALS = """
CREATE OR REPLACE TEMP VIEW {} AS SELECT id, {} AS lo, {} AS hi
FROM VALUES {} AS t(id, l, h)
"""
ONES = (
    "(1, 0, 9), (2, -9, -1), (3, -3, 4), (4, 5, 5), (5, 7, 3), (6, NULL, 4), (7, 4, NULL), (8, -40, 60), (8, -40, 60)"
)
OTHERS = (
    "(1, 9, 12), (2, -1, 0), (3, 4, 4), (4, 60, 61), (5, 2, -2), (6, NULL, NULL), (7, -41, -40), (8, 5, 6), (9, 90, 99)"
)


@pytest.mark.parametrize("kind", ["JOIN", "FULL JOIN"])
@pytest.mark.parametrize("type_", ENDS)
def test_pairs_meet_once_in_their_first_common_bin(spark: SparkSession, type_: str, kind: str) -> None:
    session = spark.newSession()
    for name, rows in (("ones", ONES), ("others", OTHERS)):
        session.sql(INTERVALS.format(name, ENDS[type_].format("l"), ENDS[type_].format("h"), rows))
    width = {"INT": "4", "BIGINT": "4000000000", "DOUBLE": "0.6", "TIMESTAMP": "15000"}[type_]
    query = (
        f"SELECT /*+ RANGE_JOIN(a, {width}) */ a.id, b.id AS other "
        f"FROM ones a {kind} others b ON a.lo <= b.hi AND b.lo <= a.hi"
    )
    plan = Optimizer(session, FORCED).plan(query)
    assert "CommonBinBandJoin" in plan.explain()
    expected, found = both(lambda: session.sql(query), plan.dataframe)
    assert expected.rows
    assert found.rows == expected.rows


def test_bands_at_the_limits_of_bigint(spark: SparkSession) -> None:
    session = spark.newSession()
    least, most = -(2**63), 2**63 - 1
    values = ", ".join(
        f"({v})"
        for v in ("CAST('-9223372036854775808' AS BIGINT)", least + 3, least + 9, -4, 0, 3, most - 9, most - 2, most)
    )
    session.sql(f"CREATE OR REPLACE TEMP VIEW ends AS SELECT CAST(x AS BIGINT) AS x FROM VALUES {values} AS t(x)")
    query = "SELECT a.x, b.x AS y FROM ends a JOIN ends b ON a.x BETWEEN try_subtract(b.x, 5) AND try_add(b.x, 3)"
    plan = Optimizer(session, FORCED).plan(query)
    assert "NeighbourBandJoin" in plan.explain()
    expected, found = both(lambda: session.sql(query), plan.dataframe)
    assert found.rows == expected.rows
