"""A declared key outlives changes of session settings, and does not outlive the table, whatever the settings are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dovetail import Optimizer, Options
from sessions import for_few_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.readSideCharPadding": ("true", "false"),
    "spark.sql.legacy.charVarcharAsString": ("true", "false"),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.caseSensitive": ("true", "false"),
    "spark.sql.session.timeZone": ("UTC", "Asia/Tokyo"),
}
COLUMNS = "id INT, c CHAR(4), v VARCHAR(4), b BINARY, t TIMESTAMP"
RELATIONS = {
    "t": f"CREATE TABLE t ({COLUMNS}) USING parquet",
    "v": "CREATE OR REPLACE TEMP VIEW v AS SELECT id, c, v, t + INTERVAL 1 DAY AS t, c = 'a' AS a FROM t",
    "w": "CREATE OR REPLACE VIEW w AS SELECT id, c, b, CAST(t AS DATE) AS d, 1 + id AS i FROM t WHERE c > 'a'",
}
ROW = "INSERT INTO t SELECT 1, 'a', 'b', X'00', TIMESTAMP'2024-01-01 00:00:00'"  # a file, for the cache of plans


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    session = for_few_rows(spark)
    session.sql("CREATE DATABASE declared_under")
    session.catalog.setCurrentDatabase("declared_under")
    yield session
    spark.sql("DROP DATABASE declared_under CASCADE")


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", RELATIONS)
def test_a_key_is_of_one_table(session: SparkSession, name: str, setting: str) -> None:
    values = SETTINGS[setting]
    session.conf.set(setting, values[0])
    session.sql("DROP TABLE IF EXISTS t")
    for text in (*RELATIONS.values(), ROW):
        session.sql(text)
    opt = Optimizer(session, Options(force=True))
    opt.declare_key(name, ["id"])
    query = f"SELECT x.id FROM {name} x JOIN {name} y ON x.id = y.id"
    for value in (*values, values[0]):
        session.conf.set(setting, value)
        plan = opt.plan(query)
        assert plan.rewritten, plan.explain("trace")
    session.sql("DROP TABLE t")
    for text in (RELATIONS["t"], ROW):
        session.sql(text)
    for value in values:
        session.conf.set(setting, value)
        assert not opt.plan(query).rewritten
