"""Where the files of a sink may lie: never among those of a state, nor where the log of another sink hides them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dovetail import Optimizer, OptionError, Sink

if TYPE_CHECKING:
    from pathlib import Path

JOIN = "SELECT a.id, b.w FROM s a JOIN t b ON a.id = b.id"
COUNTS = "SELECT a.id, count(*) AS n FROM s a JOIN t b ON a.id = b.id GROUP BY a.id"


@pytest.fixture
def streams(opt: Optimizer, tmp_path: Path) -> Optimizer:
    """A session with streams ``s`` and ``t`` of two rows each, of which both match."""
    session = opt.session
    for name, items in (("s", ["id"]), ("t", ["id", "concat('w', id) AS w"])):
        rows = session.range(2).selectExpr(*items)
        rows.coalesce(1).write.parquet(str(tmp_path / name))
        session.readStream.schema(rows.schema).parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    return opt


def run(opt: Optimizer, sink: str, checkpoint: str, *, state_modules: bool) -> None:
    query = opt.stream(
        JOIN, sink=Sink("parquet", sink), checkpoint=checkpoint, trigger="available now", state_modules=state_modules
    )
    query.awaitTermination()


@pytest.mark.parametrize(
    ("sink", "state"), [("out", "out"), ("out", "out/state"), ("state/out", "state"), ("./x/../state/out/", "state/")]
)
def test_sink_and_state_do_not_lie_in_one_another(streams: Optimizer, tmp_path: Path, sink: str, state: str) -> None:
    place, kept = str(tmp_path) + "/" + sink, str(tmp_path) + "/" + state
    with pytest.raises(OptionError, match="one lies in the other"):
        run(streams, place, kept, state_modules=True)
    with pytest.raises(OptionError, match="one lies in the other"):
        streams.materialize(COUNTS, "counts", state=kept, sink=Sink("parquet", place))
    assert not list(tmp_path.rglob("*.json"))


def test_nor_by_symbolic_links(streams: Optimizer, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for sink, state in (("link", "real"), ("link/out", "real"), ("real", "link/state")):
        with pytest.raises(OptionError, match="one lies in the other"):
            run(streams, str(tmp_path / sink), str(tmp_path / state), state_modules=True)
    run(streams, str(tmp_path / "link" / "out"), str(tmp_path / "real" / "state"), state_modules=True)


def test_neighbours_with_one_beginning_do(streams: Optimizer, tmp_path: Path) -> None:
    run(streams, str(tmp_path / "out"), str(tmp_path / "out_state"), state_modules=True)
    assert streams.session.read.parquet(str(tmp_path / "out")).count() == 2


@pytest.mark.parametrize("first", [True, False])
def test_no_writer_hides_the_rows_of_another(streams: Optimizer, tmp_path: Path, first: bool) -> None:
    out = str(tmp_path / "out")
    run(streams, out, str(tmp_path / "one"), state_modules=first)
    with pytest.raises(OptionError, match="another folder"):
        run(streams, out, str(tmp_path / "two"), state_modules=not first)
    run(streams, out, str(tmp_path / "one"), state_modules=first)
    assert streams.session.read.parquet(out).count() == 2


def test_views_write_to_folders_of_their_own(streams: Optimizer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sinks = {"a": Sink("parquet", out), "b": Sink("csv", f"file:{out}/")}
    with pytest.raises(OptionError, match="a and b write to one folder"):
        streams.materialize_all({"a": COUNTS, "b": JOIN}, state=tmp_path / "state", sinks=sinks)


def test_a_view_of_the_user_comes_back(streams: Optimizer, tmp_path: Path) -> None:
    session = streams.session
    session.table("s").createOrReplaceTempView("__dt_joined")
    session.range(7).createOrReplaceTempView("__dt_written")
    query = COUNTS.replace("FROM s", "FROM __dt_joined")
    view = streams.materialize(query, "counts", state=tmp_path / "state", sink="replaced", mode="complete")
    try:
        assert sorted(map(tuple, view.table().collect())) == [(0, 1), (1, 1)]
        assert session.table("__dt_joined").isStreaming
        assert session.table("__dt_written").count() == 7
    finally:
        session.sql("DROP TABLE IF EXISTS replaced")
        session.catalog.dropTempView("__dt_joined")


def test_a_replaced_table_stays_the_one_that_was_named(streams: Optimizer, tmp_path: Path) -> None:
    session, before = streams.session, streams.session.catalog.currentDatabase()
    session.sql("CREATE DATABASE IF NOT EXISTS elsewhere")
    try:
        view = streams.materialize(COUNTS, "counts", state=tmp_path / "state", sink="replaced", mode="complete")
        session.sql("CREATE TABLE elsewhere.replaced AS SELECT 7L AS id, 7L AS n")
        session.sql("USE elsewhere")
        session.range(1).write.mode("append").parquet(str(tmp_path / "s"))
        view.refresh()
        assert [tuple(row) for row in session.table("replaced").collect()] == [(7, 7)]
        assert sorted(map(tuple, session.table(f"{before}.replaced").collect())) == [(0, 2), (1, 1)]
    finally:
        session.catalog.setCurrentDatabase(before)
        session.sql("DROP TABLE IF EXISTS replaced")
        session.sql("DROP DATABASE elsewhere CASCADE")
