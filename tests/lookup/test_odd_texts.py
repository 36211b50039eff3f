"""Texts that cannot be encoded, and names that only their case distinguishes: an error with a reason, and no hang."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from dovetail import Optimizer, QueryError
from dovetail.executor.connectors.http import HttpSource
from dovetail.executor.connectors.memory import MemorySource
from servers import HttpService
from sessions import for_few_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

AS_OF = "FOR SYSTEM_TIME AS OF PROCTIME() AS"
ONCE = "(SELECT id AS k FROM range(3) ORDER BY k LIMIT 2)"
ANSWERS = [
    rb'[{"id": 1, "\ud800ame": "x"}]',
    rb'[{"id": 1, "name": "\udcff"}]',
    rb'[{"id": "\udcff", "name": "x"}]',
    rb'{"\ud800": 1}',
    b'[{"id": 1, "name": "\xff"}]',
]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return for_few_rows(spark)


@pytest.fixture(scope="module")
def service() -> Iterator[HttpService]:
    service = HttpService([])
    yield service
    service.stop()


@pytest.mark.parametrize("left", ["(SELECT 1L AS k)", ONCE])
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_cannot_be_encoded(
    session: SparkSession, service: HttpService, answer: bytes, left: str
) -> None:
    service.fault = lambda handler, number: service.answer(handler, answer) is None
    opt = Optimizer(session)
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    opt.register_lookup("dim", HttpSource(service.url, schema=schema, keys=("id",)))
    with pytest.raises((PySparkException, Py4JError), match=r"lookup in dim"):
        opt.sql(f"SELECT * FROM {left} o LEFT JOIN dim {AS_OF} c ON o.k = c.id").collect()


def test_columns_that_differ_by_case_alone(session: SparkSession) -> None:
    opt = Optimizer(session)
    rows = pa.table(
        [[1], ["lo"], ["UP"]], schema=pa.schema([("id", pa.int64()), ("v", pa.string()), ("V", pa.string())])
    )
    opt.register_lookup("dim", MemorySource(rows))
    text = f"SELECT o.k, c.* FROM {{}} o JOIN dim {AS_OF} c ON o.k = c.id"
    assert list(map(tuple, opt.sql(text.format("(SELECT 1L AS k)")).collect())) == [(1, 1, "lo", "UP")]
    with pytest.raises(QueryError, match="dim has the columns v and V, which differ by case alone"):
        opt.sql(text.format(ONCE))
    session.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert list(map(tuple, opt.sql(text.format(ONCE)).collect())) == [(1, 1, "lo", "UP")]
    finally:
        session.conf.unset("spark.sql.caseSensitive")
