"""A state that is copied, moved or removed, and its sink: no row is lost, and none is there twice."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer, OptionError, QueryError, Sink, StateError
from stream_feeds import grow_ids

if TYPE_CHECKING:
    from pathlib import Path

JOIN = "SELECT a.id, b.id AS other FROM s a JOIN t b ON a.id BETWEEN b.id AND b.id"
BAND = "SELECT a.id, b.id AS other FROM s a JOIN t b ON a.id BETWEEN b.id AND b.id + 1"
QUERY = "SELECT a.id, count(*) AS n FROM s a JOIN t b ON a.id = b.id GROUP BY a.id"


def run(opt: Optimizer, tmp_path: Path, checkpoint: str) -> Counter[int]:
    more: Any = {"sink": Sink("parquet", tmp_path / "out"), "trigger": "available now", "state_modules": True}
    opt.stream(JOIN, checkpoint=tmp_path / checkpoint, **more).awaitTermination()
    return Counter(row.id for row in opt.session.read.parquet(str(tmp_path / "out")).collect())


@pytest.mark.parametrize("partial", [False, True])
def test_a_copy_and_its_original_write_to_one_folder(opt: Optimizer, tmp_path: Path, partial: bool) -> None:
    grow_ids(opt.session, tmp_path, 0)
    run(opt, tmp_path, "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    grow_ids(opt.session, tmp_path, 10)
    for checkpoint in ("one", "two", "one") if partial else ("two", "one", "two"):
        found = run(opt, tmp_path, checkpoint)
    assert found == {0: 1, 1: 1, 10: 2, 11: 2}


def test_a_moved_checkpoint_replaces_what_its_last_epoch_wrote(opt: Optimizer, tmp_path: Path) -> None:
    """As after a crash between the sink and the commit."""
    grow_ids(opt.session, tmp_path, 0)
    run(opt, tmp_path, "one")
    (tmp_path / "one" / "commits" / "0").unlink()
    (tmp_path / "one" / "commits" / ".0.crc").unlink(missing_ok=True)
    (tmp_path / "one").rename(tmp_path / "two")
    grow_ids(opt.session, tmp_path, 10)
    assert run(opt, tmp_path, "two") == {0: 1, 1: 1, 10: 1, 11: 1}


def changes(opt: Optimizer, folder: Path) -> Counter[Any]:
    found = Counter[Any]()
    for id_, n, kind in opt.session.read.parquet(str(folder)).collect():
        found[id_, n] += {"insert": 1, "delete": -1}[kind]
    return found


def test_a_view_that_is_built_again_finds_its_old_files(opt: Optimizer, tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "out"
    queries = {"one": QUERY, "two": QUERY.replace("count(*)", "max(b.id)")}
    more: Any = {"state": state, "sinks": {"one": Sink("parquet", out)}}
    grow_ids(opt.session, tmp_path, 0)
    opt.materialize_all(queries, **more)
    state.rename(tmp_path / "moved")
    more["state"] = state = tmp_path / "moved"
    grow_ids(opt.session, tmp_path, 5)
    opt.materialize_all(queries, **more)
    shutil.rmtree(state / "views" / "one")
    opt.materialize_all({"two": queries["two"]}, state=state)
    for _ in range(2):
        with pytest.raises(
            StateError, match=r"has files of a view one that was removed from its state.* Empty this sink"
        ):
            opt.materialize_all(queries, **more)
    shutil.rmtree(out)
    grow_ids(opt.session, tmp_path, 10)
    opt.materialize_all(queries, **more)
    assert changes(opt, out) == {(n, 1): 1 for n in (0, 1, 5, 6, 10, 11)}


def test_memory_does_not_go_on(opt: Optimizer, tmp_path: Path) -> None:
    """Spark's own sink says the same: This query does not support recovering from checkpoint location."""
    grow_ids(opt.session, tmp_path, 0)
    more: Any = {"sink": Sink("memory"), "trigger": "available now", "checkpoint": tmp_path / "c"}
    opt.stream(BAND, name="shown", **more).awaitTermination()
    grow_ids(opt.session, tmp_path, 10)
    with pytest.raises(
        OptionError, match=r"sink memory cannot resume from .*c: .* Give it a new checkpoint, or a sink of files"
    ):
        opt.stream(BAND, name="shown", **more)
    assert opt.session.table("shown").count() == 3


@pytest.mark.parametrize("name", ["me m`1.x", "a.b", "1 2", "`", "select from"])
def test_names_of_memory_tables(opt: Optimizer, tmp_path: Path, name: str) -> None:
    grow_ids(opt.session, tmp_path, 0)
    with pytest.raises(QueryError, match="is not a name of a temporary view"):
        opt.stream(BAND, name=name, sink=Sink("memory"), checkpoint=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_files_in_the_place_of_folders(opt: Optimizer, tmp_path: Path) -> None:
    grow_ids(opt.session, tmp_path, 0)
    (tmp_path / "file").write_text("kept")
    out, file = Sink("parquet", tmp_path / "out"), tmp_path / "file"
    for sink, state, what in ((Sink("parquet", file), tmp_path / "c", "sink"), (out, file, "state")):
        with pytest.raises(OptionError, match=f"file is a file, and the {what} needs a folder"):
            opt.stream(BAND, sink=sink, checkpoint=state)
        with pytest.raises(OptionError, match=f"file is a file, and the {what} needs a folder"):
            opt.materialize(QUERY, "v", sink=sink, state=state)
    assert file.read_text() == "kept"
    assert not (tmp_path / "c").exists()
