"""`verify(measure=True)`: the seconds of both ways, and the rows of each of Spark's operators."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from dovetail import Optimizer, Options
from dovetail.optimizer.verify.batch import Checks, verify
from dovetail.planner.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dovetail.planner.explain.measured import MeasuredRun

BAND = "SELECT a.id, b.id AS other FROM point a JOIN span b ON a.at BETWEEN b.lo AND b.hi"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.sql("CREATE TEMPORARY VIEW point AS SELECT id, id * 7 % 50 AS at FROM range(40)")
    own.sql("CREATE TEMPORARY VIEW span AS SELECT id, id AS lo, id + 3 AS hi FROM range(0, 50, 2)")
    return own


def rows_of(run: MeasuredRun, name: str) -> list[int | None]:
    """The rows of the operators of a name."""
    return [o.rows for o in run.operators if name in o.name]


def pairs() -> int:
    """The number of rows of the band join, counted without Spark."""
    points = [i * 7 % 50 for i in range(40)]
    return sum(lo <= at <= lo + 3 for at in points for lo in range(0, 50, 2))


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_rows_of_operators(session: SparkSession, adaptive: str) -> None:
    session.conf.set("spark.sql.adaptive.enabled", adaptive)
    found = Optimizer(session, Options(strict=True, force=True)).verify(BAND, measure=True)
    assert found.runs is not None
    assert found.rows == pairs()
    loops = rows_of(found.runs.written, "NestedLoop") + rows_of(found.runs.written, "CartesianProduct")
    assert loops == [pairs()]
    for run in (found.runs.written, found.runs.rewritten):
        assert run.operators[0].depth == 0
        assert {40, 25} <= set(rows_of(run, "Range"))
        assert all("#" not in o.detail for o in run.operators)
    assert not rows_of(found.runs.rewritten, "NestedLoop")
    assert str(found).startswith(f"same: {pairs()} rows both ways; ")
    assert str(found).endswith(f"{found.runs.rewritten.seconds:.2f} s rewritten")


def test_a_plan_is_measured(session: SparkSession) -> None:
    run = Optimizer(session, Options(force=True)).plan(BAND).measure()
    assert {40, 25} <= set(rows_of(run, "Range"))
    assert 0 < sum(o.seconds or 0 for o in run.operators) < 100
    assert all(o.seconds is not None for o in run.operators if o.name == "BroadcastExchange")
    lines = str(run).splitlines()
    assert lines[0] == f"{run.seconds:.2f} s"
    assert any(line.strip().startswith("Generate: ") and " rows" in line for line in lines)


def test_rows_of_subqueries(session: SparkSession) -> None:
    text = f"{BAND} WHERE a.id > (SELECT avg(id) FROM range(11))"
    found = Optimizer(session, Options(strict=True, force=True)).verify(text, measure=True)
    assert found.runs is not None
    assert 11 in rows_of(found.runs.written, "Range")


def test_a_literal_that_looks_like_a_column_stays(session: SparkSession) -> None:
    text = f"{BAND} AND concat('Brand#', a.id) <> 'Brand#23'"
    found = Optimizer(session, Options(strict=True, force=True)).verify(text, measure=True)
    assert found.runs is not None
    for run in (found.runs.written, found.runs.rewritten):
        details = " ".join(o.detail for o in run.operators)
        assert "Brand#23" in details
        assert "#" not in details.replace("Brand#", "")


def test_the_page_has_both_runs(session: SparkSession) -> None:
    opt = Optimizer(session, Options(strict=True, force=True))
    found = opt.verify(BAND, measure=True)
    page = opt.plan(BAND).explain("html", verified=found)
    assert f"Verified: same: {pairs()} rows both ways" in page
    assert "As written: " in page
    assert f"{pairs()} rows</div>" in page
    plain = opt.plan(BAND).explain("html", verified=opt.verify(BAND))
    assert f"Verified: same: {pairs()} rows both ways; " in plain
    assert "As written: " not in plain


def test_nothing_is_measured_without_a_rewriting(session: SparkSession) -> None:
    found = Optimizer(session, Options(strict=True)).verify("SELECT id FROM point", measure=True)
    assert (found.rewritten, found.runs) == (False, None)


def test_columns_that_differ_are_not_measured(session: SparkSession) -> None:
    plan = Optimizer(session, Options(strict=True)).plan("SELECT id FROM point")
    found = verify(session, replace(plan, rewriting="SELECT CAST(id AS INT) AS id FROM point"), Checks(measure=True))
    assert (found.same, found.runs) == (False, None)


def test_streams_are_not_measured(session: SparkSession) -> None:
    for name in ("s", "t"):
        rows = session.readStream.format("rate").load().selectExpr("value AS id", "value % 5 AS k")
        rows.createOrReplaceTempView(name)
    with pytest.raises(QueryError, match="joins streams"):
        Optimizer(session).verify("SELECT s.id FROM s JOIN t ON s.k = t.k", measure=True, state_modules=True)
