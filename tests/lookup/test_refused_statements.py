"""Statements with lookups that cannot run say what stands in the way, and what to write instead."""

from __future__ import annotations

from datetime import date
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from dovetail import Optimizer, Options, QueryError
from dovetail.executor.connectors.memory import MemorySource
from effort import examples

AT = "FOR SYSTEM_TIME AS OF PROCTIME()"
REGEX = "spark.sql.parser.quotedRegexColumnNames"


def test_names_as_patterns(opt: Optimizer) -> None:
    query = f"SELECT o.id, n.name FROM range(3) o LEFT JOIN names {AT} AS n ON o.id = n.id"
    opt.session.conf.set(REGEX, "true")
    try:
        with pytest.raises(QueryError, match=r"quotedRegexColumnNames is true: .* Set it to false"):
            opt.sql(query)
        left = "(SELECT a.id + 1 AS id2, a.id AS k FROM range(9) a JOIN range(9) b ON a.id BETWEEN b.id AND b.id + 2)"
        patterns = f"SELECT `(id2)?+.+` FROM {left}"
        assert opt.sql(patterns).columns == opt.session.sql(patterns).columns == ["k"]
    finally:
        opt.session.conf.unset(REGEX)
    assert opt.sql(query).count() == 3


# What Arrow cannot hold, and what goes around it: each wrapped up to three times.
_ODD = ["map()", "array()", "array(map())", "named_struct('a', 1, 'a', 2)"]
_WRAPPED = st.lists(
    st.sampled_from(["array({})", "map(1, {})", "named_struct('f', {})", "array({}, NULL)"]), max_size=3
)


@settings(max_examples=examples(0.1), suppress_health_check=list(HealthCheck))
@given(odd=st.sampled_from(_ODD), around=_WRAPPED)
def test_columns_that_cannot_travel(opt: Optimizer, odd: str, around: list[str]) -> None:
    text = reduce(lambda inner, outer: outer.format(inner), around, odd)
    left = f"(SELECT id, {text} AS x FROM range(3) LIMIT 3)"
    query = f"SELECT l.x FROM {left} l LEFT JOIN names {AT} AS n ON l.id = n.id"
    with pytest.raises(
        QueryError, match=r"A column to the left of the lookup join with \S*names\S* is .*, with .*Cast it, or leave"
    ):
        opt.sql(query).collect()


@given(
    inner=st.sampled_from(["NULL", "array(NULL)", "map(1, NULL)", "struct(NULL)", "1"]),
    around=_WRAPPED,
)
@settings(max_examples=examples(0.1), suppress_health_check=list(HealthCheck))
def test_columns_of_no_type_that_can(opt: Optimizer, inner: str, around: list[str]) -> None:
    text = reduce(lambda inside, outer: outer.format(inside), around, inner)
    left = f"(SELECT id, {text} AS x FROM range(3) LIMIT 3)"
    query = f"SELECT l.id, string(l.x) AS x FROM {left} l LEFT JOIN names {AT} AS n ON l.id = n.id"
    plain: Any = opt.session.sql(f"SELECT id, string(x) AS x FROM {left}").collect()
    assert sorted(map(str, opt.sql(query).collect())) == sorted(map(str, plain))


def test_a_subquery_in_the_key(opt: Optimizer) -> None:
    query = f"SELECT o.id FROM range(3) o LEFT JOIN names {AT} AS n ON n.id = o.id + (SELECT min(id) FROM range(2))"
    with pytest.raises(QueryError, match="a key cannot contain a subquery; join the subquery to the left side"):
        opt.sql(query)


@pytest.mark.parametrize("name", ["names", "NAMES"])
def test_a_query_of_with_that_hides_the_lookup(opt: Optimizer, name: str) -> None:
    query = f"WITH {name} AS (SELECT 1 AS id) SELECT o.id FROM range(3) o JOIN {name} {AT} AS n ON n.id = o.id"
    with pytest.raises(QueryError, match=f"{name} is a query of WITH here, which hides the lookup"):
        opt.sql(query)


LEFT = {
    "DOUBLE": "(1D), (1.5D), (2.9D), (NULL), (double('NaN')), (double('infinity'))",
    "FLOAT": "(float(1)), (float(2.5)), (float(-0.0))",
    "TIMESTAMP": "(TIMESTAMP'2024-01-01'), (TIMESTAMP'2024-01-01 10:30:00'), (TIMESTAMP'2024-01-02')",
    "TIMESTAMP_NTZ": "(TIMESTAMP_NTZ'2024-01-02'), (TIMESTAMP_NTZ'2024-01-02 00:00:01')",
    "STRING": "('1'), ('2')",
}
RIGHT = {
    "BIGINT": pa.array([1, 2, 0], pa.int64()),
    "DATE": pa.array([date(2024, 1, 1), date(2024, 1, 2)]),
}


@pytest.mark.parametrize(("mine", "theirs"), [(m, t) for m in LEFT for t in RIGHT if m[:4] != "TIME" or t == "DATE"])
def test_the_advice_for_another_type_keeps_the_answer(opt: Optimizer, mine: str, theirs: str) -> None:
    """Where Spark compares the two at all, the condition that the reason names matches the same rows."""
    session, rows = opt.session, RIGHT[theirs]
    own = Optimizer(session, Options(force=True))
    own.register_lookup("dim", MemorySource(pa.table({"id": rows})))
    values = "VALUES " + ", ".join(f"({theirs} '{value}')" if theirs == "DATE" else f"({value})" for value in rows)
    left = f"(SELECT * FROM VALUES {LEFT[mine]} AS v(x)) o"
    with pytest.raises(QueryError, match="a lookup finds only values of its own type") as refused:
        own.sql(f"SELECT string(o.x) AS x FROM {left} JOIN dim {AT} AS c ON o.x = c.id")
    advice = refused.value.reason.partition("; write ")[2]
    try:
        plain = session.sql(f"SELECT string(o.x) AS x FROM {left} JOIN ({values} AS v(id)) c ON o.x = c.id").collect()
    except PySparkException:
        return  # Spark compares no such types
    advised = own.sql(f"SELECT string(o.x) AS x FROM {left} JOIN dim {AT} AS c ON {advice}")
    assert sorted(map(str, advised.collect())) == sorted(map(str, plain))
