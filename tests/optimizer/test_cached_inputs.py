"""What is cached stays cached: no call of Dovetail changes it, and all rows come from it as in plain Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest

from dovetail import Optimizer, Options, optimized
from dovetail.executor.connectors.memory import MemorySource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FORCE = Options(force=True)
CONDITION = "c.ts BETWEEN w.lo AND w.hi"
LEFT_JOIN = f"SELECT c.id, c.token, w.wid FROM {{c}} c LEFT JOIN {{w}} w ON {CONDITION}"
TABLE_JOIN = LEFT_JOIN.replace("{c}", "cached_rows").replace("{w}", "windows")
LOOKUP = "SELECT c.id, c.token, n.name FROM {} c LEFT JOIN names FOR SYSTEM_TIME AS OF PROCTIME() n ON n.id = c.id"


@pytest.fixture
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    own = spark.newSession()
    own.sparkContext.setCheckpointDir(str(tmp_path_factory.mktemp("checkpoints")))
    own.range(20).selectExpr("id AS wid", "id * 30 AS lo", "id * 30 + 20 AS hi").createOrReplaceTempView("windows")
    yield own
    own.catalog.clearCache()


def volatile_rows(session: SparkSession) -> DataFrame:
    """Rows with a token that another computation would not return."""
    from pyspark.sql.functions import udf

    token = udf(lambda: str(uuid4())).asNondeterministic()
    return session.range(60).selectExpr("id", "id * 10 AS ts").withColumn("token", token())


def with_storage_level(level: str) -> Callable[[SparkSession], DataFrame]:
    from pyspark import StorageLevel

    return lambda session: volatile_rows(session).persist(getattr(StorageLevel, level))


def cached_table(session: SparkSession) -> DataFrame:
    volatile_rows(session).createOrReplaceTempView("cached_rows")
    session.sql("CACHE TABLE cached_rows")
    return session.table("cached_rows")


def equal_plan(session: SparkSession) -> DataFrame:
    """A frame that is not the cached one, with an equal plan."""
    rows = volatile_rows(session)
    rows.cache()
    return rows.alias("again")


CACHED: dict[str, Callable[[SparkSession], DataFrame]] = {
    "cache": lambda session: volatile_rows(session).cache(),
    "memory only": with_storage_level("MEMORY_ONLY"),
    "disk only": with_storage_level("DISK_ONLY"),
    "equal plan": equal_plan,
    "CACHE TABLE": cached_table,
    "checkpoint": lambda session: volatile_rows(session).checkpoint(),
    "localCheckpoint": lambda session: volatile_rows(session).localCheckpoint(),
}


def left_join(c: DataFrame, w: DataFrame) -> DataFrame:
    from pyspark.sql.functions import expr

    return c.alias("c").join(w.alias("w"), expr(CONDITION), "left").select("c.id", "token", "wid")


def join(opt: Optimizer, c: DataFrame, w: DataFrame) -> Any:
    return opt.join(c.alias("c"), w.alias("w"), CONDITION, "left").collect()


def join_asof(opt: Optimizer, c: DataFrame, w: DataFrame) -> Any:
    return opt.join_asof(c, w, left_on="ts", right_on="lo").collect()


def installed(action: Callable[[DataFrame], Any]) -> Callable[[Optimizer, DataFrame, DataFrame], Any]:
    def call(opt: Optimizer, c: DataFrame, w: DataFrame) -> Any:
        on_session = Optimizer.install(opt.session, FORCE, frames=True)
        try:
            return action(left_join(c, w))
        finally:
            on_session.uninstall()

    return call


def to_pandas(frame: DataFrame) -> Any:
    pandas: Any = frame.toPandas()
    return [*pandas.itertuples()]


def lookup(opt: Optimizer, c: DataFrame, w: DataFrame) -> Any:
    opt.register_lookup("names", MemorySource(pa.table({"id": [1, 2], "name": ["a", "b"]})))
    return opt.sql(LOOKUP.format("{c}"), c=c).collect()


def verify(opt: Optimizer, c: DataFrame, w: DataFrame) -> Any:
    opt.verify(TABLE_JOIN)


CALLS: dict[str, Callable[[Optimizer, DataFrame, DataFrame], Any]] = {
    "sql": lambda opt, c, w: opt.sql(LEFT_JOIN, c=c, w=w).collect(),
    "sql, as written": lambda opt, c, w: opt.sql("SELECT id, token FROM {c}", c=c).collect(),
    "sql over views": lambda opt, c, w: opt.sql(TABLE_JOIN).collect(),
    "plan": lambda opt, c, w: opt.plan(LEFT_JOIN, c=c, w=w).dataframe().collect(),
    "plan of a frame": lambda opt, c, w: opt.plan(left_join(c, w)).dataframe().collect(),
    "dataframe": lambda opt, c, w: opt.dataframe(left_join(c, w)).collect(),
    "optimized": lambda opt, c, w: optimized(left_join(c, w), FORCE).collect(),
    "join": join,
    "join_asof": join_asof,
    "verify": verify,
    "lookup": lookup,
    "installed collect": installed(lambda d: d.collect()),
    "installed toPandas": installed(to_pandas),
    "installed toArrow": installed(lambda d: d.toArrow().to_pylist()),
    "installed write": installed(lambda d: d.write.format("noop").mode("append").save()),
    "installed sql": installed(lambda d: d.sparkSession.sql(TABLE_JOIN).collect()),
}


def cached_plans(session: Any) -> set[str]:
    """What Spark has in its cache: each plan with its storage level."""
    manager = session._jsparkSession.sharedState().cacheManager()
    field = manager.getClass().getDeclaredField("cachedData")
    field.setAccessible(True)
    found = field.get(manager)
    entries = (found.apply(n) for n in range(found.size()))
    levels = ((e, e.cachedRepresentation().cacheBuilder().storageLevel()) for e in entries)
    return {f"{level.toString()} {entry.plan().toString()}" for entry, level in levels}


def tokens(rows: Any) -> list[str]:
    """The tokens of all rows, by the id of the row."""
    found = {(r["id"], r["token"]) if isinstance(r, dict) else (r.id, r.token) for r in rows}
    return [token for _, token in sorted(found)]


SOME = ("cache", "equal plan", "CACHE TABLE", "localCheckpoint")  # of make test


@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.thorough] * (k not in SOME)) for k in CACHED])
def test_no_call_changes_what_is_cached(session: SparkSession, kind: str) -> None:
    c = CACHED[kind](session)
    if kind != "CACHE TABLE":
        c.createOrReplaceTempView("cached_rows")
    expected = tokens(c.collect())
    level, before = c.storageLevel, cached_plans(session)
    assert kind in ("checkpoint", "localCheckpoint") or before
    opt = Optimizer(session, FORCE)
    assert opt.plan(left_join(c, session.table("windows"))).rewritten
    for name, call in CALLS.items():
        found = call(opt, c, session.table("windows"))
        assert cached_plans(session) == before, name
        assert c.storageLevel == level, name
        assert found is None or tokens(found) == expected, name
    assert tokens(c.collect()) == expected


def test_rows_come_from_the_cache_where_the_files_have_gone(session: SparkSession, tmp_path: Any) -> None:
    volatile_rows(session).write.parquet(f"{tmp_path}/rows")
    c = session.read.parquet(f"{tmp_path}/rows").cache()
    expected = tokens(c.collect())
    for file in (tmp_path / "rows").iterdir():
        file.unlink()
    opt = Optimizer(session, FORCE)
    frame = left_join(c, session.table("windows"))
    assert opt.plan(frame).rewritten
    for _ in range(2):
        assert tokens(opt.dataframe(frame).collect()) == expected
        assert tokens(opt.sql(LEFT_JOIN, c=c, w=session.table("windows")).collect()) == expected


@pytest.mark.parametrize("text", [TABLE_JOIN, f"SELECT id, token FROM (\n{TABLE_JOIN}\n)"])
def test_a_query_whose_rows_are_cached_is_not_computed_again(session: SparkSession, text: str) -> None:
    """Spark answers the text from its cache; a rewriting has another plan, which is not cached."""
    volatile_rows(session).createOrReplaceTempView("cached_rows")
    opt = Optimizer(session, FORCE)
    assert opt.plan(text).rewritten
    cached = session.sql(TABLE_JOIN).cache()
    expected = tokens(cached.collect())
    plan = opt.plan(text)
    assert not plan.rewritten
    assert "in its cache" in plan.declined[-1].reason
    assert tokens(opt.sql(text).collect()) == expected
    cached.unpersist()
    assert opt.plan(text).rewritten
