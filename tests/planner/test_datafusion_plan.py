"""The plans of Sail as text: what is certain to read the same rows again, and how many."""

from __future__ import annotations

import pytest

from dovetail.executor.catalog.datafusion_plan import is_scan
from dovetail.executor.catalog.statistics import parse_statistics
from dovetail.planner.catalog.stats import UNKNOWN

SCAN = """Projection: p.#0 AS #3, p.#1 AS #4
  SubqueryAlias: p
    Projection: ?table?.id AS #0, ?table?.x AS #1
      TableScan: ?table? projection=[id, x]
"""
COST = (
    "== Optimized Logical Plan ==\n{}\n== Physical Plan ==\nProjectionExec: expr=[#3@0 as id], statistics=[{}]\n  Data"
)


@pytest.mark.parametrize(
    "plan",
    [
        SCAN,
        "TableScan: tt",
        "Projection: tt.id AS #3\n  TableScan: tt projection=[id]",
        "Filter: ?table?.#0 < CAST(Int32(3) AS Int64) AND ?table?.#1 IS NOT NULL\n  TableScan: ?table?",
        "Filter: t.x > Int64(3)\n  TableScan: t projection=[x], partial_filters=[t.x > Int64(3)]",
    ],
)
def test_a_scan(plan: str) -> None:
    assert is_scan(plan)


@pytest.mark.parametrize(
    "plan",
    [
        "",
        "Projection: random() AS r",
        "Projection: Int64(1) AS a",
        "Projection: ?table?.id AS #0, random() AS #1\n  TableScan: ?table?",
        "Filter: ?table?.id < random()\n  TableScan: ?table?",
        "Filter: EXISTS (<subquery>)\n  TableScan: ?table?",
        'Filter: ?table?.s = Utf8("random()")\n  TableScan: ?table?',
        "Limit: skip=0, fetch=3\n  TableScan: ?table?",
        "Inner Join: p.#0 = q.#3\n  TableScan: p\n  TableScan: q",
        "Projection: p.#0 AS a b\n  TableScan: p",
        "TableScan: ?table? projection=[id], fetch=3",
        "TableScan: t projection=[x], partial_filters=[t.x > random()]",
        "TableScan: p\n  Range: start=0, end=3, step=1, num_partitions=1",
        "Relation [id#0L] parquet",
    ],
)
def test_no_scan(plan: str) -> None:
    assert not is_scan(plan)


def test_statistics() -> None:
    found = parse_statistics(
        COST.format(SCAN, "Rows=Exact(2000), Bytes=Inexact(40000), [(Col[0]: Min=Exact(Int64(0)))]")
    )
    assert (found.rows, found.bytes, found.plain, found.cheap) == (2000, 40000, True, True)
    computed = parse_statistics(COST.format(f"Limit: skip=0, fetch=3\n{SCAN}", "Rows=Inexact(20), Bytes=Inexact(400)"))
    assert (computed.rows, computed.plain, computed.cheap) == (20, False, False)
    assert parse_statistics(COST.format(SCAN, "Rows=Absent, Bytes=Absent")) is UNKNOWN
    assert parse_statistics("") is UNKNOWN
