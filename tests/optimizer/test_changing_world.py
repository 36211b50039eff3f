"""A plan looks at the world when it runs: random changes between planning and running, next to plain `spark.sql`."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from comparing import assert_same
from dovetail import CatalogError, Optimizer, Options
from dovetail.executor.connectors.memory import MemorySource
from effort import examples
from sessions import for_few_rows
from shares import Share, at_least

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dovetail import Plan

BAND = "SELECT p.x, i.w FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi"
QUERIES: tuple[tuple[str, dict[str, int] | None], ...] = (
    (BAND, None),
    (f"{BAND} WHERE p.x > :least", {"least": 5}),
    (
        "SELECT p.X, count(*) AS n FROM points p JOIN intervals i ON p.x BETWEEN i.LO - 2 AND i.hi + 2 GROUP BY p.X",
        None,
    ),
    ("SELECT p.x, i.w FROM points p LEFT JOIN intervals i ON p.x BETWEEN i.lo AND i.hi + 2147483640", None),
    ("SELECT p.x, i.w FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND moved(i.hi)", None),
    ("SELECT p.x, i.w FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi + moving", None),
    ("SELECT x, w FROM shown WHERE w >= 0", None),
    ("SELECT x, w FROM held", None),
    ("SELECT a.x, b.x AS y FROM points a JOIN points b ON a.id = b.id", None),
    ("SELECT a.w, b.hi FROM intervals a LEFT JOIN intervals b ON a.w = b.w", None),
    ("SELECT count(*) AS n, max(hi) AS hi, max(string(timestamp_seconds(lo))) AS t FROM intervals", None),
    ("SELECT * FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi;", None),
)
TYPES = ("INT", "BIGINT", "DOUBLE", "DECIMAL(12, 2)", "SMALLINT", "STRING")
SETTINGS = {
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.session.timeZone": ("UTC", "Asia/Tokyo"),
    "spark.sql.caseSensitive": ("false", "true"),
}
plans_that_run_later = at_least(0.3)
_names = count()


def points(rows: int, type_: str, column: str = "", row: str = "") -> str:
    return f"SELECT id, CAST(id * 7 % 20 AS {type_}) AS x, 1 AS v{column} FROM range({rows}){row}"


def intervals(rows: int, type_: str, length: int) -> str:
    columns = f"CAST(id * 3 AS {type_}) AS lo, CAST(id * 3 + {length} AS {type_}) AS hi, CAST(id % 4 AS INT) AS w"
    return f"SELECT {columns} FROM range({rows})"


class World:
    """Two databases with tables of the same names, temporary views, functions and variables, and plans made so far."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.session, self.folder, self.other = for_few_rows(spark), folder, for_few_rows(spark)
        self.plans: list[tuple[int, Plan]] = []
        self.places: dict[tuple[str, str], Path] = {}
        self.optimizer = Optimizer(self.session, Options(nested_loop_pairs=0, broadcast_pairs=0, strict=True))
        for database in ("one", "two"):
            self.session.sql(f"CREATE DATABASE IF NOT EXISTS world_{database}")
            self.session.sql(f"USE world_{database}")
            self.table("intervals", intervals(8, "INT", 4))
            self.table("points", points(12, "INT"))
            self.session.sql(f"CREATE OR REPLACE VIEW held AS {BAND}")
        self.function(2)
        self.session.sql("DECLARE OR REPLACE VARIABLE moving INT DEFAULT 3")
        self.session.sql(f"CREATE OR REPLACE TEMP VIEW shown AS {BAND}")

    def table(self, name: str, query: str) -> None:
        database = self.session.catalog.currentDatabase()
        self.session.sql(f"DROP TABLE IF EXISTS {database}.{name}")
        place = self.places[database, name] = self.folder / f"t{next(_names)}"
        place.mkdir()
        rows = self.session.sql(query)
        pq.write_table(rows.toArrow(), place / "made.parquet")
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in rows.schema.fields)
        self.session.sql(f"CREATE TABLE {database}.{name} ({columns}) USING parquet LOCATION '{place}'")

    def view(self, name: str, query: str) -> None:
        self.session.sql(query).createOrReplaceTempView(name)

    def view_of_text(self, query: str) -> None:
        self.session.sql(f"CREATE OR REPLACE TEMP VIEW shown AS {query}")

    def drop_view(self, name: str) -> None:
        self.session.catalog.dropTempView(name)

    def insert(self, mode: str, lo: int, hi: int, *, elsewhere: bool) -> None:
        session, database = self.other if elsewhere else self.session, self.session.catalog.currentDatabase()
        session.sql(f"INSERT {mode} {database}.intervals (lo, hi, w) VALUES ({lo}, {hi}, 2)")

    def write(self, hi: int, *, alone: bool) -> None:
        """Another program writes a file into the table of intervals; ``alone``: the others are gone."""
        place = self.places[self.session.catalog.currentDatabase(), "intervals"]
        if alone:
            for file in [*place.glob("*.parquet"), *place.glob(".*.crc")]:
                file.unlink()
        whole = pa.int32()
        columns = {"lo": pa.array([0, 5], whole), "hi": pa.array([hi, hi], whole), "w": pa.array([1, 3], whole)}
        pq.write_table(pa.table(columns), place / f"written{next(_names)}.parquet")

    def setting(self, name: str, value: str) -> None:
        self.session.conf.set(name, value)

    def function(self, more: int) -> None:
        self.session.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION moved(x BIGINT) RETURNS BIGINT RETURN x + {more}")

    def variable(self, value: int) -> None:
        self.session.sql(f"SET VAR moving = {value}")

    def use(self, database: str) -> None:
        self.session.sql(f"USE world_{database}")

    def key(self, *, declared: bool) -> None:
        if declared:
            self.optimizer.declare_key("points", ["id"])
        else:
            self.optimizer.declarations.keys.clear()

    def plan(self, n: int) -> None:
        self.plans.append((n, self.optimizer.plan(*QUERIES[n])))

    def run(self, which: int, share: Share) -> None:
        n, plan = self.plans[which % len(self.plans)]
        share.count(plan.rewritten)
        text, args = QUERIES[n]
        assert_same(self.session, text, plan, args)

    def sql(self, n: int) -> None:
        text, args = QUERIES[n]
        runs: Any = SimpleNamespace(dataframe=partial(self.optimizer.sql, text, args))
        assert_same(self.session, text, runs, args)


def changes() -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    """What may happen between a plan and its run, as a method of ``World`` and its arguments."""
    types, rows, databases = st.sampled_from(TYPES), st.integers(0, 15), st.sampled_from(("one", "two"))
    more = st.sampled_from((("", ""), (", 5 AS more", ""), ("", " UNION ALL SELECT 1, 3, 1")))
    of_points = st.builds(lambda rows, type_, more: points(rows, type_, *more), rows, types, more)
    of_intervals = st.builds(intervals, rows, types, st.sampled_from((0, 4, 9, 30)))
    ends = st.sampled_from((-(2**31), -3, 0, 5, 2**31 - 1))
    each = {
        "view": st.one_of(_both(st.just("points"), of_points), _both(st.just("intervals"), of_intervals)),
        "table": st.one_of(_both(st.just("points"), of_points), _both(st.just("intervals"), of_intervals)),
        "view_of_text": st.fixed_dictionaries({"query": st.sampled_from((BAND, f"{BAND} WHERE i.w > 1"))}),
        "drop_view": st.fixed_dictionaries({"name": st.sampled_from(("points", "intervals"))}),
        "insert": st.fixed_dictionaries(
            {"mode": st.sampled_from(("INTO", "OVERWRITE")), "elsewhere": st.booleans(), "lo": ends, "hi": ends}
        ),
        "write": st.fixed_dictionaries({"hi": ends, "alone": st.booleans()}),
        "setting": st.sampled_from(sorted(SETTINGS)).flatmap(
            lambda name: st.fixed_dictionaries({"name": st.just(name), "value": st.sampled_from(SETTINGS[name])})
        ),
        "function": st.fixed_dictionaries({"more": st.sampled_from((0, 2, 40))}),
        "variable": st.fixed_dictionaries({"value": st.sampled_from((0, 3, 40))}),
        "use": st.fixed_dictionaries({"database": databases}),
        "key": st.fixed_dictionaries({"declared": st.booleans()}),
    }
    return st.sampled_from(sorted(each)).flatmap(lambda name: each[name].map(lambda said: (name, said)))


def _both(name: st.SearchStrategy[str], query: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"name": name, "query": query})


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[str, dict[str, Any]]]:
    """Some statements, planned; then rounds of a change, after which plans run that were made at any time before."""
    queries = st.fixed_dictionaries({"n": st.integers(0, len(QUERIES) - 1)})
    story: list[tuple[str, dict[str, Any]]] = [("plan", draw(queries)) for _ in range(3)]
    for _ in range(draw(st.integers(2, 5))):
        story.append(draw(changes()))
        story += draw(st.lists(st.tuples(st.just("plan"), queries), max_size=1))
        story += draw(st.lists(st.tuples(st.just("sql"), queries), max_size=1))
        story.append(("run", {"which": draw(st.integers(0, 5))}))
    return story


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], World]]:
    """Makes a world; its databases are gone at the end."""
    yield lambda: World(spark, tmp_path_factory.mktemp("world"))
    for database in ("one", "two"):
        spark.sql(f"DROP DATABASE IF EXISTS world_{database} CASCADE")


# A story is read as it is: to shrink one takes minutes.
@settings(max_examples=examples(1 / 15), phases=(Phase.explicit, Phase.generate))
@given(story=stories())
def test_any_story(
    world: Callable[[], World], plans_that_run_later: Share, story: list[tuple[str, dict[str, Any]]]
) -> None:
    now = world()
    for name, said in story:
        note(f"{name} {said}")
        if name == "run":
            now.run(**said, share=plans_that_run_later)
        elif name in ("plan", "sql"):
            getattr(now, name)(**said)
        else:
            with suppress(PySparkException, CatalogError):  # what the tables of this moment do not take
                getattr(now, name)(**said)


@pytest.mark.parametrize("change", ["view", "table", "write"])
def test_each_plan_after_a_change(world: Callable[[], World], change: str) -> None:
    """Whether a plan was rewritten, and whether its planning was worth remembering, makes no difference."""
    now = world()
    for n in range(len(QUERIES)):
        now.plan(n)
    if change == "view":
        now.view("points", points(5, "INT"))
        now.view("intervals", intervals(5, "BIGINT", 9))
    elif change == "table":
        now.table("points", points(5, "INT"))
        now.table("intervals", intervals(5, "BIGINT", 9))
    else:
        now.write(7, alone=True)
        now.session.catalog.refreshTable("intervals")
    for which in range(len(QUERIES)):
        now.run(which, Share())


def test_a_lookup_after_a_change(world: Callable[[], World]) -> None:
    now = world()
    text = "SELECT p.x, w.w FROM points p JOIN weights FOR SYSTEM_TIME AS OF PROCTIME() AS w ON p.x = w.x"
    now.optimizer.register_lookup("weights", MemorySource(pa.table({"x": [0, 7, 14], "w": [1, 2, 3]}), [("x",)]))
    plan = now.optimizer.plan(text)
    assert [plan.dataframe().count() for _ in range(2)] == [3, 3]
    now.view("points", points(5, "BIGINT"))
    assert sorted(map(tuple, plan.dataframe().collect())) == [(0, 1), (7, 2), (14, 3)]
    now.view("points", "SELECT 14L AS x, 'a' AS more")
    assert sorted(map(tuple, plan.dataframe().collect())) == [(14, 3)]
    fetched = plan.metrics()["weights"]
    assert fetched is not None
    assert fetched.rows >= 3
    now.optimizer.register_lookup("weights", MemorySource(pa.table({"x": [14], "w": [8]}), [("x",)]))
    assert sorted(map(tuple, plan.dataframe().collect())) == [(14, 8)]


def test_arguments_are_those_of_the_plan(world: Callable[[], World]) -> None:
    now = world()
    for text, args in ((f"{BAND} WHERE p.x > :least", {"least": 5}), ("SELECT id FROM points WHERE x > ?", [5])):
        plan = now.optimizer.plan(text, args)
        rows = now.session.sql(text, args).count()
        if isinstance(args, dict):
            args["least"] = 99
        else:
            args[0] = 99
        assert plan.dataframe().count() == rows > 0


def test_a_plan_is_made_again_only_after_a_change(world: Callable[[], World]) -> None:
    now = world()
    plan = now.optimizer.plan(BAND)
    assert plan.current is not None
    again = plan.current(plan)
    assert (again.timings, again.rewriting) == (plan.timings, plan.rewriting)
    now.insert("INTO", 1, 2, elsewhere=True)
    assert plan.current(plan).timings != plan.timings
