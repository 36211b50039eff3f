"""What outlives its planning is right and bounded for whatever rows come later: an interval over all there is, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from comparing import assert_same
from dovetail import Optimizer, Options
from sessions import for_few_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# Of each type: two ordinary values, and the first and the last there are.
TYPES = {
    "INT": ("5", "9", "-2147483648", "2147483647"),
    "BIGINT": ("5", "9", "-9223372036854775808", "9223372036854775807"),
    "DOUBLE": ("0.25D", "0.5D", "double('-Infinity')", "double('Infinity')"),
    "FLOAT": ("float(0.25)", "float(0.5)", "float(-3e38)", "float(3e38)"),
    "DECIMAL(20, 4)": ("1.5", "2.5", "-9999999999999999.9999", "9999999999999999.9999"),
    "DATE": ("DATE '2024-01-01'", "DATE '2024-01-05'", "DATE '0001-01-01'", "DATE '9999-12-31'"),
    "TIMESTAMP": (
        "TIMESTAMP '2024-01-01'",
        "TIMESTAMP '2024-01-01 00:00:07'",
        "TIMESTAMP '0001-01-01'",
        "TIMESTAMP '9999-12-31 23:59:59.999999'",
    ),
}
QUERIES = [
    "SELECT {hint} p.id, i.id AS i FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT {hint} p.id, i.id AS i FROM points p LEFT JOIN intervals i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT {hint} p.id, i.id AS i FROM points p RIGHT JOIN intervals i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT {hint} p.id, i.id AS i FROM points p FULL JOIN intervals i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT {hint} p.id FROM points p LEFT SEMI JOIN intervals i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT {hint} i.id FROM intervals i LEFT ANTI JOIN points p ON p.x > i.lo AND p.x < i.hi",
    "SELECT {hint} a.id, b.id AS b FROM intervals a JOIN intervals b ON a.lo <= b.hi AND b.lo <= a.hi",
    "SELECT {hint} i.id, count(*) AS n FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi GROUP BY i.id",
]


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    own = for_few_rows(spark)
    own.sql("CREATE DATABASE IF NOT EXISTS generic_plan")
    own.sql("USE generic_plan")
    yield own
    own.sql("USE default")
    own.sql("DROP DATABASE generic_plan CASCADE")


def fill(session: SparkSession, type_: str) -> tuple[str, str, str, str]:
    a, b, first, last = TYPES[type_]
    session.sql(
        f"CREATE TABLE points USING parquet AS SELECT id, CAST(if(id < 3, {a}, {b}) AS {type_}) AS x FROM range(6)"
    )
    session.sql(
        f"CREATE TABLE intervals USING parquet AS SELECT id, CAST({a} AS {type_}) AS lo, CAST({b} AS {type_}) AS hi "
        "FROM range(3)"
    )
    return a, b, first, last


@pytest.mark.parametrize("type_", TYPES)
def test_texts_that_are_kept_and_rows_that_come_later(session: SparkSession, type_: str) -> None:
    a, b, first, last = fill(session, type_)
    opt = Optimizer(session, Options(nested_loop_pairs=0, broadcast_pairs=0, generic_plan=True, strict=True))
    hints = [""]
    if type_ in ("INT", "BIGINT", "DOUBLE"):
        hints.append("/*+ RANGE_JOIN(p, 2), RANGE_JOIN(a, 2) */")
    made: list[tuple[str, str]] = []
    for n, (query, hint) in enumerate((q, h) for q in QUERIES for h in hints):
        text = query.format(hint=hint)
        plan = opt.plan(text)
        assert "measured" not in plan.explain().replace("not measured", "")
        assert plan.rewritten or "SEMI" in text or "ANTI" in text or "count" in text, plan.declined
        session.sql(f"CREATE VIEW v{n} AS {plan.sql()}")
        made.append((f"v{n}", text))
    ends = [(first, last), (first, b), (a, last), (last, first), ("NULL", last), (first, first), (last, last), (b, a)]
    for n, (lo, hi) in enumerate(ends):
        session.sql(f"INSERT INTO intervals SELECT {n + 10}, CAST({lo} AS {type_}), CAST({hi} AS {type_})")
    for n, x in enumerate((first, last, a, "NULL")):
        session.sql(f"INSERT INTO points SELECT {n + 10}, CAST({x} AS {type_})")
    for view, text in made:
        found = sorted(map(str, session.table(view).collect()))
        assert found == sorted(map(str, session.sql(text).collect())), text


def test_lasting_plans_of_rows_there_are(session: SparkSession) -> None:
    fill(session, "INT")
    opt = Optimizer(session, Options(generic_plan=True, strict=True))
    session.sql("INSERT INTO intervals SELECT 20, -2147483648, 2147483647")
    for query in QUERIES:
        assert_same(session, query.format(hint=""), opt.plan(query.format(hint="")))
    assert opt.plan(QUERIES[0].format(hint="")).rewritten


def test_a_table_made_of_the_rows_there_are_is_measured(session: SparkSession) -> None:
    fill(session, "INT")
    opt = Optimizer(session, Options(nested_loop_pairs=0, broadcast_pairs=0))
    text = QUERIES[0].format(hint="")
    assert "lengths measured" in opt.plan(f"CREATE TABLE made AS {text}").explain()
    assert "lengths measured" in opt.plan(f"INSERT INTO made {text}").explain()
    assert "lengths not measured" in Optimizer(session, Options(generic_plan=True)).plan(text).explain()
