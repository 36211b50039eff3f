"""All queries of TPC-H and TPC-DS: what the optimizer runs gives the schema and the rows of plain Spark.

Where no rule fires, the two are one text: it is proved that Spark got exactly that text, and nothing runs.
Where a rule fires, both run. `ORDER BY … LIMIT n` may cut through rows of equal rank and leaves open which of
them stay. So with the LIMIT taken off both must give the same rows, and what stays under it must be n of them,
with the very sort keys that the first n have in plain Spark.

A query that is passed through tells nothing about the algebra that could not improve it. So its plan, carried and
normalized, is printed in a test of its own, and must be the same query: Catalyst makes one plan of both, or both run
and are compared as above.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import sqlglot
from pyspark.sql.types import DoubleType, FloatType
from sqlglot import exp

from dovetail import Optimizer, Options
from dovetail.planner.physical.base import Physical
from dovetail.planner.sql.to_sql import to_sql
from tpc import data
from tpc.compare import assert_same_rows, without_partner

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.tpc

SCALES = {"tpch": 0.01, "tpcds": 0.05}  # the smallest at which most queries have rows

CASES = [pytest.param(suite.name, query, id=query) for suite in data.SUITES.values() for query in suite.ids]
REWRITTEN = frozenset("h02 h17 h21 ds01 ds06 ds09 ds16 ds28 ds30 ds32 ds41 ds58 ds65 ds81 ds88 ds90 ds92 ds94".split())
"""The queries that a rule improves if costs do not count.  One that is gone from them has become slower for users."""

_LIMIT = re.compile(r"\bLIMIT\s+(?P<rows>\d+)\s*;?\s*\Z", re.IGNORECASE)


class Call(NamedTuple):
    """One call of `spark.sql`: what it was given, and the DataFrame it gave."""

    text: str
    others: tuple[Any, ...]
    frame: DataFrame


class Bench(NamedTuple):
    """A session with the tables of one suite, an optimizer on it, and all that `spark.sql` is asked for."""

    spark: SparkSession
    optimizer: Optimizer
    calls: list[Call]


@pytest.fixture(scope="module")
def bench(spark: SparkSession) -> Callable[[str], Bench]:
    """One bench per suite, since both have a table `customer`."""
    benches: dict[str, Bench] = {}

    def get(suite: str) -> Bench:
        if suite not in benches:
            session = spark.newSession()
            data.register(session, suite, SCALES[suite])
            session.conf.set("spark.sql.debug.maxToStringFields", 10_000)  # an EXPLAIN that leaves nothing out
            calls = record(session)
            benches[suite] = Bench(session, Optimizer(session, Options(force=True)), calls)
        return benches[suite]

    return get


def record(session: SparkSession) -> list[Call]:
    """Put a recorder in front of `session.sql`, before anybody can have taken hold of the method."""
    calls: list[Call] = []
    original = session.sql

    def sql(text: str, *args: Any, **kwargs: Any) -> DataFrame:
        frame = original(text, *args, **kwargs)
        others = tuple(value for value in (*args, *kwargs.values()) if value is not None)
        calls.append(Call(text, others, frame))
        return frame

    session.sql = sql  # type: ignore[method-assign, assignment]
    return calls


@pytest.mark.parametrize(("suite", "query"), CASES)
def test_same_schema_and_rows(bench: Callable[[str], Bench], suite: str, query: str) -> None:
    spark, optimizer, calls = bench(suite)
    text = data.queries(suite)[query]
    plan = optimizer.plan(text)
    assert plan.rewritten == (query in REWRITTEN), plan.declined
    if plan.rewritten:
        assert_same_result(spark, text, optimizer.sql)
        return
    assert plan.sql() == text
    calls.clear()
    frame = optimizer.sql(text)
    assert [(call.text, call.others) for call in calls if call.frame is frame] == [(text, ())]


@pytest.mark.parametrize(("suite", "query"), CASES)
def test_what_is_passed_through_is_printed_as_the_same_query(
    bench: Callable[[str], Bench], suite: str, query: str
) -> None:
    spark, optimizer, _ = bench(suite)
    text = data.queries(suite)[query]
    if optimizer.plan(text).rewritten:
        return
    printed = to_sql(physical(optimizer, text))
    assert fields(spark.sql(printed).schema) == fields(spark.sql(text).schema)
    if optimized(spark, printed) != optimized(spark, text):
        assert_same_result(spark, text, lambda text: spark.sql(to_sql(physical(optimizer, text))))


def physical(optimizer: Optimizer, text: str) -> Physical:
    """The plan of a query that no rule improves."""
    plan = optimizer.plan(text)
    assert plan.physical is not None, plan.declined
    return plan.physical


def assert_same_result(spark: SparkSession, text: str, ours: Callable[[str], DataFrame]) -> None:
    """Run a query our way and Spark's, and compare all that the query says of its result."""
    frame, plain = ours(text), spark.sql(text)
    assert fields(frame.schema) == fields(plain.schema)
    actual, limit = frame.collect(), _LIMIT.search(text)
    if limit is None:
        first = plain.collect()
        assert_same_rows(actual, first)
    else:
        unlimited = text[: limit.start()]
        every = spark.sql(unlimited).collect()
        assert_same_rows(ours(unlimited).collect(), every)
        first = every[: int(limit["rows"])]
        assert len(actual) == len(first)
        assert not without_partner(actual, every)
    keys = sort_keys(text, plain.schema)
    assert [[row[at] for at in keys] for row in actual] == [[row[at] for at in keys] for row in first]


def optimized(spark: SparkSession, text: str) -> str:
    """What Catalyst makes of a query, with its numbers for columns in the order in which they appear."""
    said = spark.sql(f"EXPLAIN EXTENDED {text}").collect()[0][0]
    plan = said.partition("== Optimized Logical Plan ==")[2].partition("== Physical Plan ==")[0]
    assert plan.strip(), said
    numbers: dict[str, int] = {}
    return re.sub(r"#(\d+)", lambda match: f"#{numbers.setdefault(match[1], len(numbers))}", plan)


def fields(schema: StructType) -> list[tuple[str, str, bool]]:
    """Names, types and nullability, in order; `json` tells the nullability of what is nested too."""
    return [(field.name, field.dataType.json(), field.nullable) for field in schema.fields]


def sort_keys(text: str, schema: StructType) -> list[int]:
    """Positions of the output columns that the whole result is sorted by, as far as the output shows them."""
    names = [field.name.lower() for field in schema.fields]
    order = sqlglot.parse_one(text, dialect="spark").args.get("order")
    found = []
    for key in order.expressions if order else []:
        name = key.this.name.lower()
        if isinstance(key.this, exp.Literal):
            found.append(int(name) - 1)
        elif isinstance(key.this, exp.Column) and not key.this.table and names.count(name) == 1:
            found.append(names.index(name))
    return [at for at in found if not isinstance(schema[at].dataType, DoubleType | FloatType)]
