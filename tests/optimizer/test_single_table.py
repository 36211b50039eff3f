"""Statements over one table are found by their text, and none that a rule rewrites is among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.golden_plans.approval import approved_as_written
from dovetail.golden_plans.case import read_case
from dovetail.golden_plans.planned import catalog_of
from dovetail.optimizer.statements.single_table import find_single_table

CASES = Path(__file__).parents[2] / "golden_plans" / "cases"


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("SELECT 1", ""),
        ("select a, sum(b) from db.t as x\nwhere a > 1 group by a order by 2 limit 3;", "db.t"),
        ("SELECT * FROM t x", "t"),
        ("SELECT *, lag(b) OVER (ORDER BY a) AS c FROM t QUALIFY c > 1", "t"),
        ("SHOW TABLES", ""),
        (" set spark.sql.shuffle.partitions=2", ""),
        ("SELECT * FROM t, u", None),
        ("SELECT * FROM t x, u", None),
        ("SELECT * FROM t CROSS JOIN u", None),
        ("SELECT * FROM t WHERE a IN (TABLE v)", None),
        ("SELECT * FROM t UNION ALL TABLE v", None),
        ("SELECT * FROM t TABLESAMPLE (10 ROWS)", None),
        ("SELECT * FROM t FOR SYSTEM_TIME AS OF x", None),
        ("SELECT * FROM t |> WHERE a > 1", None),
        ("SELECT /*+ RANGE_JOIN(t, 5) */ * FROM t", None),
        ("FROM t SELECT *", None),
        ("TABLE v", None),
        ("CREATE VIEW v AS SELECT * FROM t", None),
        ("CACHE TABLE v", None),
        ("EXPLAIN SELECT * FROM t", None),
        ("", None),
    ],
)
def test_texts(text: str, table: str | None) -> None:
    assert find_single_table(text) == table


def test_no_rewritten_statement_reads_a_single_table() -> None:
    found = []
    for path in sorted(CASES.rglob("*.plan")):
        case = read_case(path)
        table = find_single_table(case.sql)
        if table is None or approved_as_written(case):
            continue
        found.append(path.name)
        assert catalog_of(case).view(tuple(table.split("."))), path
    assert found  # some read a view with a join inside
