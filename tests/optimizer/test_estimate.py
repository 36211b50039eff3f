"""Estimates on Spark: their intervals, their end, and what they leave behind."""

from __future__ import annotations

import random
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer, OptionError, QueryError
from dovetail.optimizer.estimate import run
from dovetail.optimizer.estimate.run import Goal, prepare_estimate
from dovetail.planner.estimate.clusters import Interval
from dovetail.planner.estimate.groups import GroupSums
from dovetail.planner.estimate.looks import CLUSTERS, Look
from sessions import for_few_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BAND = """
    SELECT s.device, count(*) AS n, sum(e.amount) AS total, avg(e.amount) AS mean, sum(e.amount) / count(e.nothing) AS r
    FROM e JOIN s ON e.at BETWEEN s.start AND s.stop GROUP BY s.device
"""


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> SparkSession:
    """Events `e`, a hundredth of a unit apart, and sessions `s` of 5 units: 20,000 and 1,000 rows."""
    own = for_few_rows(spark)
    draw = random.Random(48)
    events = [(n / 100, draw.randrange(100), None if n % 3 else n) for n in range(20_000)]
    sessions = [(float(n) / 5, n / 5 + 5, n % 4) for n in range(1_000)]
    for name, rows, schema in (
        ("e", events, "at double, amount int, nothing int"),
        ("s", sessions, "start double, stop double, device int"),
    ):
        own.createDataFrame(rows, schema).createOrReplaceTempView(name)
    return own


def test_an_estimate_from_its_first_look_to_the_exact_answer(
    tables: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_SHORT", 0.0)
    opt = Optimizer(tables)
    views = [table.name for table in tables.catalog.listTables()]
    exact = {row[0]: row for row in opt.sql(BAND).collect()}
    answers = list(opt.estimate(BAND, error=0.001, seed=7, seconds=600))
    assert [answer.exact for answer in answers] == [False] * (len(answers) - 1) + [True]
    assert len(answers) > 2
    assert [answer.share for answer in answers] == sorted(answer.share for answer in answers)
    missed = set()  # of a column in an answer: all groups have the same events, and miss together
    for answer in answers:
        for row in answer.rows:
            for n, (value, true) in enumerate(zip(row.values[1:], exact[row.values[0]][1:], strict=True)):
                assert isinstance(value, Interval)
                if row.certified and not value.low <= float(true) <= value.high:
                    missed.add((answer.share, n))
    assert len(missed) <= 2
    frames = [answer.dataframe() for answer in answers]
    assert frames[-1].columns[:4] == ["device", "n", "n_low", "n_high"]
    assert frames[-1].columns[-2:] == ["sampled_rows", "certified"]
    assert {frame.schema.simpleString() for frame in frames} == {frames[0].schema.simpleString()}
    assert {row[0]: tuple(row[n] for n in (1, 4, 7, 10)) for row in frames[-1].collect()} == {
        device: tuple(row[1:]) for device, row in exact.items()
    }
    assert "seed 7" in answers[0].describe()
    assert answers[-1]._repr_html_().count("<line") > 30
    assert [table.name for table in tables.catalog.listTables()] == views


def test_an_estimate_that_is_left(tables: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_SHORT", 0.0)
    events = tables.table("e")
    views = [table.name for table in tables.catalog.listTables()]
    answers = Optimizer(tables).estimate(
        "SELECT count(*) FROM {x} WHERE amount < :most", {"most": 50}, seed=1, x=events
    )
    first = next(answers)
    del answers
    (row,) = first.rows
    assert 7_000 < row.values[0].estimate < 13_000
    assert [table.name for table in tables.catalog.listTables()] == views
    again = next(Optimizer(tables).estimate("SELECT count(*) FROM e WHERE amount < 50", seed=1))
    assert again.rows[0].values == first.rows[0].values


def test_a_short_run_is_exact_after_one_look(tables: SparkSession) -> None:
    text = "SELECT sum(amount) AS n FROM e HAVING count(*) > 0 ORDER BY n"
    answers = list(Optimizer(tables).estimate(text, error=0.001))
    assert "HAVING and ORDER BY: only in the exact answer" in answers[0].describe()
    if answers[0].seconds < 2:  # else the machine is busy
        assert "predicted to take less than 3 s" in answers[0].reason
    assert answers[-1].exact
    assert answers[-1].rows[0].values[0].estimate == tables.sql(text).collect()[0][0]


def test_what_is_written_around_aggregates(tables: SparkSession) -> None:
    text = """
        SELECT round(avg(amount), 2), coalesce(sum(amount), 0), CAST(sum(amount) AS DECIMAL(20, 1)),
               count_if(amount > 50), count(nothing) / nullif(count(*), 0),
               sum(amount) FILTER (WHERE at < 100), try_divide(sum(at), count(*))
        FROM e
    """
    first = next(Optimizer(tables).estimate(text, seed=1))
    (row,) = first.rows
    for interval, exact in zip(row.values, tables.sql(text).collect()[0], strict=True):
        assert interval.certified
        assert interval.low <= float(exact) <= interval.high
    assert first.dataframe().schema[0].dataType == tables.sql(text).schema[0].dataType


def test_the_rows_of_a_relation_are_known(tables: SparkSession) -> None:
    """They are counted beforehand, with the conditions that read it alone; groups and joins are not."""
    opt = Optimizer(tables)
    for text, known in (
        ("SELECT count(*), avg(at) FROM e WHERE amount < 50", True),
        ("SELECT count(*) FROM (SELECT * FROM e WHERE amount < 50)", True),
        ("SELECT count(nothing) FROM e", False),
        ("SELECT count(*) FROM e LEFT JOIN s ON e.at = s.start", False),
        ("SELECT amount % 2, count(*) FROM e GROUP BY 1", False),
    ):
        first = next(opt.estimate(text, seed=1))
        count = next(value for value in first.rows[0].values if isinstance(value, Interval))
        assert (count.low == count.high) == known, text
        if known:
            assert count.estimate == tables.sql(text).collect()[0][0]


def test_nothing_to_estimate(tables: SparkSession) -> None:
    """No rows, no value, and a group that has none."""
    opt = Optimizer(tables)
    for text, expected in (
        ("SELECT count(*), sum(amount), avg(amount) FROM e WHERE at < 0", (0, None, None)),
        ("SELECT sum(nothing) / count(*) FROM e WHERE nothing IS NULL", (None,)),
    ):
        *_, last = opt.estimate(text, seed=2)
        assert last.exact
        assert tuple(value and value.estimate if value else None for value in last.rows[0].values) == expected


def test_an_exact_run_that_is_not_short_after_all(tables: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_SHORT", inf)
    monkeypatch.setattr(run, "_ATTEMPT", 0.0)
    answers = list(Optimizer(tables).estimate("SELECT sum(amount) FROM e", error=0.001, seed=3, seconds=600))
    assert [answer.exact for answer in answers] == [False] * (len(answers) - 1) + [True]
    assert len(answers) > 2


JOINS = (
    "e JOIN s ON e.at BETWEEN s.start AND s.stop",
    "e LEFT JOIN s ON e.at BETWEEN s.start AND s.start + 0.05 AND e.amount > 50",
    "e RIGHT JOIN s ON e.at BETWEEN s.start AND s.start + 0.005",
    "e LEFT SEMI JOIN s ON e.at BETWEEN s.start AND s.start + 0.05",
    "e LEFT ANTI JOIN s ON e.at BETWEEN s.start AND s.start + 0.05",
    "s LEFT ANTI JOIN e ON e.amount = s.device AND e.at BETWEEN s.start AND s.stop",
    "e JOIN s ON e.amount = s.device AND e.at BETWEEN s.start AND s.stop",
    "e JOIN (VALUES (7, 'a'), (3, 'b'), (2, 'c'), (2, 'd'), (NULL, 'e')) AS names(size, name) ON size = e.amount",
    "e JOIN e AS f ON f.at BETWEEN e.at AND e.at + 0.02",
    "(SELECT at, amount, nothing FROM e WHERE amount > 20) AS e, (SELECT * FROM s WHERE device = 2) AS s",
    "e LATERAL VIEW explode(array(1, 2, nothing)) x AS y",
    "e FULL JOIN s ON e.at = s.start JOIN e AS g ON g.amount = s.device",
)


@pytest.mark.parametrize("joined", JOINS)
def test_all_clusters_together_have_the_exact_totals(tables: SparkSession, joined: str) -> None:
    of = "s" if joined.startswith("s ") else "f" if " AS f " in joined else "g" if " AS g " in joined else "e"
    column = "device" if of == "s" else "amount"
    column = f"{of}.{column}"
    text = (
        f"SELECT {column} % 3 AS part, count(*) AS n, sum({column}) AS total, avg(1.5 * {column}) AS mean FROM {joined}"
    )
    text = f"WITH unused AS (SELECT 1) {text} WHERE {column} % 7 <> 1 OR {column} IS NULL GROUP BY ALL"
    estimate = prepare_estimate(Optimizer(tables)._planner, text, None, {}, Goal(0.01, 0.95, None, 5))
    sums = GroupSums(estimate.query.products, estimate.sizes(inf))
    for end in (1024, CLUSTERS):
        estimate.read(sums, end, inf)
    rows = estimate.answer(sums, Look(CLUSTERS, 0.01), 1.0, None).rows
    found = {row.values[0]: [value and value.estimate for value in row.values[1:]] for row in rows}
    exact = {
        row[0]: [value if value is None else float(value) for value in row[1:]]
        for row in Optimizer(tables).sql(text).collect()
    }
    assert len(exact) > 1
    assert found.keys() == exact.keys()
    for key, values in exact.items():
        assert found[key] == pytest.approx(values, rel=1e-4)


@pytest.mark.parametrize(
    ("given", "error", "reason"),
    [
        ({"text": "SELECT max(at) FROM e"}, QueryError, "depends on single rows"),
        ({"text": "SELECT sum(INTERVAL 1 DAY) FROM e"}, QueryError, "only numbers are estimated"),
        ({"text": "DROP TABLE e"}, QueryError, "DROP … is not a query"),
        ({"text": "SELECT count(*) FROM e", "error": 0}, OptionError, "error=0 is no relative error"),
        ({"text": "SELECT count(*) FROM e", "error": "1%"}, OptionError, "error='1%' is no number"),
        ({"text": "SELECT count(*) FROM e", "seed": 1.5}, OptionError, "seed=1.5 is no whole number"),
        ({"text": "SELECT count(*) FROM e", "confidence": 95}, OptionError, "confidence=95"),
        ({"text": "SELECT count(*) FROM e", "seconds": 0}, OptionError, "seconds=0"),
        ({"text": "SELECT count(*) FROM e", "seconds": 0.0001}, QueryError, "give the estimate more seconds"),
        ({"text": "SELECT e.at, count(*) FROM e GROUP BY at"}, QueryError, "more than 10,000"),
    ],
)
def test_what_is_refused(tables: SparkSession, given: dict[str, Any], error: type[Exception], reason: str) -> None:
    text = given.pop("text")
    with pytest.raises(error, match=reason):
        list(Optimizer(tables).estimate(text, **given))
