"""Folders whose names have characters that mean something to Spark or Hadoop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings

from dovetail import Optimizer, Sink
from dovetail.executor.state.files import HadoopFolder
from dovetail.executor.state.paths import read_paths
from effort import examples
from folder_names import ODD, PATTERNS, names
from stream_feeds import FEW, Feed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

QUERY = "SELECT a.id, b.id AS bid FROM s a JOIN t b ON a.k = b.k"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("names")


@settings(max_examples=examples(1 / 8))
@example("kept?")
@example("k\\")
@example("?:x\\*")
@example("k {a,b} [2024]")
@given(name=names)
def test_what_is_written_is_read(spark: SparkSession, folder: Path, name: str) -> None:
    """Beside folders whose names a pattern would match as well."""
    here = folder / f"{len(list(folder.iterdir()))}"
    here.mkdir()
    for n, other in enumerate(dict.fromkeys((name, "".join("x" if c in PATTERNS else c for c in name)))):
        spark.range(n + 2).coalesce(1).write.parquet(f"{here}/{other}/rows")
    spark.range(1).write.parquet(f"{here}/{name}/more")
    for root in (f"{here}/{name}", f"file:{here}/{name}"):
        state = HadoopFolder(spark, root)
        rows = [state.below("rows"), state.below("more")]
        assert read_paths(lambda: spark.read.schema("id LONG"), rows).count() == 3
        state.create("sub/one", name)
        assert (here / name / "sub" / "one").read_bytes() == name.encode()
        assert state.read("sub/one") == name
        state.rename("sub/one", "two")
        assert [f.name for f in state.inside()] == ["more", "rows", "sub", "two"]
        assert "two" in {f.name for f in state.walk()}
        state.delete("two")
        state.delete("sub")
        assert sorted(p.name for p in (here / name).iterdir()) == ["more", "rows"]


@FEW
@example(name=ODD)
@given(name=names)
def test_streams_and_views_keep_their_state_there(spark: SparkSession, folder: Path, name: str) -> None:
    opt = Optimizer(spark.newSession())
    here = folder / f"stream{len(list(folder.iterdir()))}"
    feeds = [Feed(opt.session, here / f"feed-{of}", of) for of in "st"]
    for epoch in range(2):  # a second one reads the state of the first
        for feed in feeds:
            feed.add([(2 * epoch, 1, 0), (2 * epoch + 1, 2, 0)])
        view = opt.materialize(QUERY, "kept", state=here / name)
        assert view.table().count() == 2 * (epoch + 1) ** 2
        other = opt.materialize(QUERY, "other", state=here / "".join("1" if c in PATTERNS else c for c in f"{name}?"))
        assert other.table().count() == 2 * (epoch + 1) ** 2
        sink = Sink("parquet", here / "out")
        checkpoint = here / f"checkpoint {name}"
        opt.stream(QUERY, checkpoint=checkpoint, sink=sink, trigger="available now").awaitTermination()
        assert opt.session.read.parquet(f"{here}/out").count() == 2 * (epoch + 1) ** 2
    (here / "scratch").mkdir()
    found = view.verify(scratch=here / "scratch" / name)
    assert (found.same, found.rows) == (True, 8)
