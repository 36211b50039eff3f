"""Joins of streams that Spark cannot plan: an error before anything starts, and what Spark runs goes on running."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from dovetail import Optimizer, QueryError, Sink
from stream_feeds import FEW, Feed

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = "Stream-stream join without equality predicate is not supported"


@pytest.fixture
def feeds(opt: Optimizer, tmp_path: Path) -> list[Feed]:
    found = [Feed(opt.session, tmp_path / "in" / name, name, delay=5) for name in "st"]
    for feed in found:
        feed.add([(1, 1, 0), (2, 1, 1000), (3, 2, 2000)])
    return found


_ATOMS = """a.k = b.k; a.id <> b.id; a.k <=> b.k; a.id = 1; b.id = 1; a.id + b.id = 3; a.k <= b.k; true; false
a.k + 1 = b.id; a.id IN (b.id, b.k); coalesce(a.k, b.k) = 1; a.ts = b.ts; struct(a.k) = struct(b.k)"""
_conditions = st.recursive(
    st.sampled_from(re.split(r";\s|\n", _ATOMS)),
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=3,
)
_shapes = st.sampled_from(
    [
        "SELECT a.id, b.id AS bid FROM s a JOIN t b ON {}",
        "SELECT a.id, b.id AS bid FROM s a, t b WHERE {}",
        "SELECT a.k, count(*) AS n FROM s a JOIN t b ON {} GROUP BY a.k",
        "SELECT a.id FROM s a LEFT SEMI JOIN t b ON {}",
        "SELECT a.id, b.id AS bid FROM (SELECT * FROM s WHERE id > 0) a CROSS JOIN t b WHERE {}",
    ]
)


def _mode(query: str) -> Any:
    return "update" if "GROUP BY" in query else "append"


@settings(FEW, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(_shapes, _conditions)
@example("SELECT a.id, b.id AS bid FROM s a JOIN t b ON {}", "a.id <> b.id")
@example("SELECT a.id, b.id AS bid FROM s a, t b WHERE {}", "(a.k = 1 AND b.k = 1)")
@example("SELECT a.id, b.id AS bid FROM s a JOIN t b ON {}", "((a.k = b.k AND a.id = 1) OR (a.k = b.k AND b.id = 1))")
@example("SELECT a.k, count(*) AS n FROM s a JOIN t b ON {} GROUP BY a.k", "NOT (NOT (a.k <=> b.k))")
@example("SELECT a.k, count(*) AS n FROM s a JOIN t b ON {} GROUP BY a.k", "false")
@example("SELECT a.id, b.id AS bid FROM (SELECT * FROM s WHERE id > 0) a CROSS JOIN t b WHERE {}", "a.k = b.k")
@example("SELECT a.id FROM s a LEFT SEMI JOIN t b ON {}", "a.k = b.k")
@example("SELECT a.id FROM s a LEFT SEMI JOIN t b ON {}", "a.id <> b.id")
def test_refused_if_and_only_if_spark_refuses(
    opt: Optimizer, feeds: list[Feed], tmp_path_factory: pytest.TempPathFactory, shape: str, condition: str
) -> None:
    query, folder = shape.format(condition), tmp_path_factory.mktemp("joins")
    message = ""
    plain = opt.session.sql(query).writeStream.outputMode(_mode(query)).format("noop").trigger(availableNow=True)
    try:
        plain.option("checkpointLocation", str(folder / "plain")).start().awaitTermination()
    except PySparkException as error:
        message = str(error)
    more: Any = {"sink": Sink("noop"), "trigger": "available now", "mode": _mode(query), "bins": False}
    if not message:
        opt.stream(query, checkpoint=folder / "ours", state_modules=False, **more).awaitTermination()
        return
    if "without a watermark" in message:  # Spark says this before it starts, and so says it here
        # A join without an equality and a watermark has two faults; Dovetail may name either.
        with pytest.raises((PySparkException, QueryError), match=f"without a watermark|{REFUSED}"):
            opt.stream(query, checkpoint=folder / "ours", state_modules=False, **more)
        return
    cause = next(cause for cause in (REFUSED, "should not take Cross") if cause in message)
    with pytest.raises(QueryError, match=cause):
        opt.stream(query, checkpoint=folder / "ours", state_modules=False, **more)
    assert not (folder / "ours").exists()


def test_the_folder_of_a_refused_join_is_free(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    query = "SELECT a.id, b.id AS bid FROM s a JOIN t b ON {}"
    more: Any = {"checkpoint": tmp_path / "c", "sink": Sink("parquet", tmp_path / "out"), "trigger": "available now"}
    for asked in (None, True, False):
        with pytest.raises(QueryError, match=f"{REFUSED}.* Add an equality or a band"):
            opt.stream(query.format("a.id <> b.id"), state_modules=asked, **more)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["in"]
    opt.stream(query.format("a.id = b.id"), **more).awaitTermination()
    assert opt.session.read.parquet(str(tmp_path / "out")).count() == 3


def test_a_view_over_a_refused_join(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    query = "SELECT a.k, count(*) AS n FROM s a JOIN t b ON {} GROUP BY a.k"
    with pytest.raises(QueryError, match=f"cannot be maintained incrementally: .*{REFUSED}"):
        opt.materialize(query.format("a.id <> b.id"), "counts", state=tmp_path / "state")
    assert not (tmp_path / "state").exists()
    assert opt.materialize(query.format("a.id = b.id"), "counts", state=tmp_path / "state").table().count() == 2


def test_a_sink_that_is_sparks_alone(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    """State modules take the band, but no partitions; Spark's own join takes what has an equality in any spelling."""
    band = "a.ts BETWEEN b.ts - INTERVAL 3 SECONDS AND b.ts + INTERVAL 2 SECONDS"
    query = f"SELECT a.id, b.id AS bid, a.k FROM s a FULL JOIN t b ON {{}} AND {band}"
    opt.session.sql(
        f"CREATE TABLE parts (id INT, bid INT, k INT) USING parquet PARTITIONED BY (k) LOCATION '{tmp_path / 'p'}'"
    )
    try:
        with pytest.raises(QueryError, match=f"has partitions.*{REFUSED}.*give it files"):
            opt.stream(query.format("a.id <> b.id"), checkpoint=tmp_path / "c", sink="parts", trigger="available now")
        assert not (tmp_path / "c").exists()
        taken = query.format("a.k <=> b.k")
        opt.stream(taken, checkpoint=tmp_path / "c", sink="parts", trigger="available now").awaitTermination()
    finally:
        opt.session.sql("DROP TABLE parts")
