"""What is declared of a name holds of it however it is written, and of the views over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dovetail import Optimizer, QueryError
from dovetail.executor.catalog.spark_catalog import SparkCatalog
from dovetail.planner.expr import quote
from effort import examples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

Streams = "Callable[[str], DataFrame]"
_character = st.one_of(st.sampled_from("-. `'\"$;#/\\()[]:,%&éA"), st.sampled_from("abXY_1"))
names = st.text(_character, min_size=1, max_size=8).filter(str.strip)
FROM = "FROM {} a JOIN other b ON a.k = b.k"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@pytest.fixture(scope="module")
def opened(spark: SparkSession, rows: Path) -> Iterator[SparkSession]:
    """A session with the stream ``other``, and ``plain``, whose rows are changes and have times."""
    session = spark.newSession()
    stream = session.readStream.schema("id INT, k INT, op STRING, ts TIMESTAMP").json(str(rows))
    stream.withWatermark("ts", "5 seconds").createOrReplaceTempView("timed")
    stream.drop("ts").createOrReplaceTempView("plain")
    stream.drop("op", "ts").createOrReplaceTempView("other")
    session.sql("CREATE DATABASE IF NOT EXISTS `1shop`")
    session.sql("CREATE TABLE `1shop`.`2orders` (id INT, k INT, op STRING) USING parquet")
    yield session
    session.sql("DROP DATABASE `1shop` CASCADE")


def refuses(opt: Optimizer, view: str, changelog: str, folder: Path) -> None:
    """A view over a changelog, which is not declared as one itself, is refused and not read as new rows."""
    plan = opt.stream_plan(f"SELECT a.id, b.id AS bid {FROM.format(view)}")
    assert plan.changelog == changelog
    assert "is a view over it" in plan.reason
    with pytest.raises(QueryError, match="is a view over it"):
        opt.materialize(f"SELECT count(*) AS n {FROM.format(view)}", "kept", state=folder / "state")


@settings(max_examples=examples(1 / 6))
@example(name="my-orders")
@example(name="a.b")
@example(name="`")
@example(name="Orders")
@given(name=names)
def test_changelogs_and_views_over_them(opened: SparkSession, rows: Path, name: str) -> None:
    opt, said = Optimizer(opened), quote(name)
    opened.table("plain").createOrReplaceTempView(said)
    opt.declare_changelog(said, "op")
    plan = opt.stream_plan(f"SELECT a.id, b.id AS bid {FROM.format(said)}")
    assert plan.join, plan.reason
    assert plan.join.changes == "op"
    opened.sql(f"CREATE OR REPLACE TEMP VIEW `over-it` AS SELECT * FROM {said} WHERE id > 0")
    opened.sql("CREATE OR REPLACE TEMP VIEW `over.that` AS SELECT x.id, x.k FROM `over-it` AS x")
    opened.table(said).alias("y").select("id", "k").createOrReplaceTempView("frame")
    for view in ("`over-it`", "`over.that`", "frame"):
        refuses(opt, view, name, rows.parent)
    opened.table("plain").alias(said).createOrReplaceTempView("alike")  # a name of its own in a query, and no view
    opened.sql(f"CREATE OR REPLACE TEMP VIEW alike AS SELECT {said}.* FROM plain AS {said}")
    found = opt.stream_plan(f"SELECT a.id, b.id AS bid {FROM.format('alike')}", state_modules=True)
    assert found.join, found.reason
    assert not found.changelog
    opened.catalog.dropTempView(name)


@pytest.mark.parametrize("view", ["global_temp.`my-view`", "global_temp.Mine"])
def test_views_of_all_sessions(opened: SparkSession, rows: Path, view: str) -> None:
    opt, name = Optimizer(opened), view.split(".")[1]
    opened.table("plain").createOrReplaceGlobalTempView(name)
    opt.declare_changelog(view, "op")
    opened.sql(f"CREATE OR REPLACE TEMP VIEW over AS SELECT * FROM {view}")
    refuses(opt, "over", f"global_temp.{name.strip('`')}", rows.parent)


@pytest.mark.parametrize("declared", ["`1shop`.`2orders`", "spark_catalog.`1shop`.`2orders`", "`2orders`"])
def test_tables_of_a_catalog(opened: SparkSession, rows: Path, declared: str) -> None:
    """The stream of a table is a view over it, by whatever name it is declared."""
    opt = Optimizer(opened)
    opened.sql("USE `1shop`")
    opt.declare_changelog(declared, "op")
    opened.readStream.table("`2orders`").createOrReplaceTempView("arriving")
    refuses(opt, "arriving", declared.replace("`", ""), rows.parent)
    opened.sql("USE default")


@settings(max_examples=examples(1 / 6))
@example(name="my-orders")
@example(name="`a`.b")
@given(name=names)
def test_versions_and_keys(opened: SparkSession, name: str) -> None:
    opt, said = Optimizer(opened), quote(name)
    opened.table("timed").createOrReplaceTempView(said)
    opt.declare_versions(said, ["k"], "ts")
    found = opt.stream_plan(f"SELECT a.id FROM timed a JOIN {said} FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k")
    assert found.join, found.reason
    assert found.join.as_of
    opened.table("other").createOrReplaceTempView(said)
    opt.declare_key(said, ["k"])
    catalog = SparkCatalog(opened, declared=opt.declarations)
    assert [key.columns for key in catalog.keys((name,))] == [("k",)]
    opened.catalog.dropTempView(name)
