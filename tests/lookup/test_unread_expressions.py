"""Expressions that only Spark reads, at every place to the left of a lookup: the statement is planned, and is right.

The oracle is plain Spark: the same statement, with the table of the lookup as an ordinary view.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail import Optimizer, Options, QueryError
from dovetail.executor.connectors.memory import MemorySource
from dovetail.planner.expr import Scalar
from effort import examples
from sessions import for_few_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = " FOR SYSTEM_TIME AS OF PROCTIME() AS"
ROWS = "VALUES (1, 'a', 5), (2, 'bc', 5), (3, 'abc', 7), (4, NULL, 8), (NULL, 'd', 9) AS t(x, s, z)"
TEXTS = ("CAST(s AS VARCHAR(10))", "CAST(s AS CHAR(3))", "s::VARCHAR(7)", "CAST(concat(s, 'c') AS VARCHAR(3))")
OTHERS = (
    "TIME'10:00:00'",
    "x >>> 1",
    "(x = 1 = true)",
    "CAST(x AS VARCHAR(5)) || TIME'10:00'",
    "CAST(s AS CHARACTER(4))",
)
UNREAD = (*TEXTS, *OTHERS)
PLACES = (
    "SELECT * FROM (SELECT x, {e} AS e FROM {events}) a JOIN {c} ON a.x = c.id",
    "SELECT * FROM (SELECT x, {e} FROM {events}) a JOIN {c} ON a.x = c.id",
    "SELECT a.*, c.n FROM (SELECT x FROM {events} WHERE {e} IS NOT NULL) a LEFT JOIN {c} ON a.x = c.id",
    "SELECT * FROM (SELECT {e} AS e, max(x) AS x FROM {events} GROUP BY {e}) a JOIN {c} ON a.x = c.id",
    "SELECT * FROM (SELECT x FROM {events} ORDER BY {e}, x LIMIT 9) a JOIN {c} ON a.x = c.id",
    "SELECT * FROM {events} JOIN (SELECT {e} AS e FROM {events}) b ON e IS NOT NULL JOIN {c} ON x = c.id",
    "SELECT * FROM {events} JOIN (SELECT z AS w FROM {events}) b ON z = w AND {e} IS NOT NULL JOIN {c} ON x = c.id",
    "WITH q AS (SELECT x, {e} AS e FROM {events}) SELECT * FROM q JOIN {c} ON q.x = c.id",
    "SELECT * FROM (SELECT x FROM {events} UNION ALL SELECT max(x) FROM {events} GROUP BY {e}) a JOIN {c} ON x = c.id",
    "SELECT * FROM (SELECT x, count(*) OVER (PARTITION BY {e}) AS m FROM {events}) a JOIN {c} ON a.x = c.id",
    "SELECT * FROM (SELECT x, g FROM {events} LATERAL VIEW stack(1, {e}) v AS g) a JOIN {c} ON a.x = c.id",
    "SELECT * FROM (SELECT DISTINCT {e} AS e, x FROM {events}) a LEFT SEMI JOIN {c} ON a.x = c.id",
    "SELECT {e}, c.n FROM {events} LEFT JOIN {c} ON x = c.id WHERE {e} IS NOT NULL ORDER BY {e}",
    "SELECT max({e}), count(*) FROM {events} JOIN {c} ON x = c.id GROUP BY {e} HAVING max({e}) IS NOT NULL",
    "SELECT x, c.n FROM {events} LEFT JOIN {c} ON x = c.id AND {e} IS NOT NULL",
    "SELECT x, c.n FROM {events} LEFT JOIN {c} ON {e} IS NULL AND x = c.id LEFT JOIN places{at} d ON d.id = z",
    "SELECT x FROM {events} LEFT ANTI JOIN {c} ON x = c.id AND (c.n > 3 OR {e} IS NULL)",
)
KEYS = (
    "SELECT x, c.n FROM {events} JOIN {c} ON {e} = c.name",
    "SELECT x, c.n FROM {events} LEFT JOIN {c} ON (c.name = ({e}))",
    "SELECT x, c.n FROM {events} JOIN {c} ON {e} = c.name AND c.n > x",
    "SELECT x, c.n FROM {events} JOIN {c} ON x = c.id AND {e} = name",
    "SELECT x, c.n FROM (SELECT x, {e} AS e FROM {events}) a LEFT JOIN {c} ON a.e = c.name",
)
TWICE, ONCE = "events", "(SELECT * FROM events ORDER BY x, s LIMIT 9) events"
STATEMENTS = [
    (place, e, events)
    for places, expressions in ((PLACES, UNREAD), (KEYS, TEXTS))
    for place, e, events in product(places, expressions, (TWICE, ONCE))
]


@pytest.fixture(scope="module")
def opt(spark: SparkSession) -> Optimizer:
    session = for_few_rows(spark)
    names = ["a", "bc", "abc", "a  ", "d", None]
    columns = {"id": pa.array([1, 2, 3, 4, 5, 7], pa.int32()), "n": pa.array([3, 1, 4, 1, 5, 9], pa.int32())}
    source = MemorySource(pa.table({**columns, "name": pa.array(names, pa.string())}))
    session.createDataFrame(source.table.to_pylist(), "id INT, n INT, name STRING").createOrReplaceTempView("places")
    session.sql(f"SELECT * FROM {ROWS}").createOrReplaceTempView("events")
    found = Optimizer(session, Options(strict=True, lookup_full_rows=0, lookup_rows_per_key=0))
    found.register_lookup("places", source)
    return found


@pytest.mark.parametrize("expression", UNREAD)
def test_only_spark_reads_these(expression: str) -> None:
    assert Scalar(expression).known is None


@given(chosen=st.sampled_from(STATEMENTS))
@settings(max_examples=examples(1 / 3))
def test_plain_spark_agrees(opt: Optimizer, chosen: tuple[str, str, str]) -> None:
    place, expression, events = chosen
    text = place.replace("{e}", expression).replace("{events}", events).replace("{c}", "places{at} c")
    wanted = opt.session.sql(text.replace("{at}", ""))
    plan = opt.plan(text.replace("{at}", AT))
    found = plan.dataframe()
    assert "RowLookupJoin" in plan.explain() or "LIMIT 9" not in text
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in wanted.schema], plan.sql()
    assert Counter(map(repr, found.collect())) == Counter(map(repr, wanted.collect())), plan.sql()


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("CAST(concat(uuid(), s) AS VARCHAR(10)) = c.name", "not known to be deterministic"),
        ("CAST(s AS VARCHAR(10)) <=> c.name", "not an equality with a column"),
        ("CAST(s AS VARCHAR(10)) = upper(c.name)", "not an equality with a column"),
        ("CAST(s AS VARCHAR(10)) = c.n", "VARCHAR|STRING"),
    ],
)
def test_what_cannot_be_asked_for(opt: Optimizer, condition: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        opt.sql(f"SELECT * FROM events JOIN places{AT} c ON {condition}")
