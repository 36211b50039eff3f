"""Nearest rows are sorted in ranges of time, or the cost of a plan has the reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail import Options
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.offline_catalog.read_catalog import read_catalog

CATALOGS = Path(__file__).parents[2] / "golden_plans" / "catalogs"
CATALOG = read_catalog(CATALOGS / "many_trades.toml")
ASOF = "SELECT t.id, {} FROM trades t LEFT ASOF JOIN {} MATCH_CONDITION ({}){}"
FIRST = "SELECT t.id, q.seq FROM trades t JOIN quotes q ON q.ts <= t.ts QUALIFY row_number() OVER (PARTITION BY t.id ORDER BY {}) <= {}"  # fmt: skip  # noqa: E501
ONE_TASK = {
    "several right rows": FIRST.format("q.ts DESC", 3),
    "begin with several": "SELECT t.id FROM trades t JOIN quotes q EXACT NEAREST 1 BY DISTANCE abs(t.qty - q.seq)",
    "different orders": FIRST.format("q.ts DESC, q.seq", 1),
    "not of one type": ASOF.format("q.venue", "quotes q", "t.note >= q.venue", ""),
    "one type that": ASOF.format("q.seq", "quotes q", "t.id >= q.seq", ""),
    "different hashes": ASOF.format("q.ts", "quotes q", "t.ts >= q.ts", " ON t.qty = q.price"),
    "read twice": ASOF.format("q.ts", "(SELECT ts FROM quotes WHERE rand() >= 0) q", "t.ts >= q.ts", ""),
}
RANGES = ASOF.format("q.ts", "quotes q", "t.ts >= q.ts", "")


@pytest.mark.parametrize("reason", ONE_TASK)
def test_the_reason_for_one_task(reason: str) -> None:
    plan = plan_sql(ONE_TASK[reason], CATALOG)
    (note,) = (choice for choice in plan.choices if "one task" in choice)
    assert reason in note
    assert "_range" not in plan.sql()


@pytest.mark.parametrize(
    "options",
    [Options(generic_plan=True), Options(measure_lengths=False), Options(nearest_range_rows=50_000_000)],
)
def test_one_task_without_measurements_and_for_fewer_rows(options: Options) -> None:
    assert "_range" not in plan_sql(RANGES, CATALOG, options).sql()


def test_ranges() -> None:
    assert "_range" in plan_sql(RANGES, CATALOG).sql()
    assert "_range" not in plan_sql(RANGES, read_catalog(CATALOGS / "trades.toml")).sql()
