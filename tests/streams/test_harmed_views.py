"""Folders of views of which a part is gone, or that are of another sink: what is wrong, and the least that mends it."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from command_line import dovetail
from dovetail import Optimizer, Sink, StateError
from stream_feeds import grow_ids

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "SELECT a.id, count(*) AS n FROM s a JOIN t b ON a.id = b.id GROUP BY a.id"
ALL = {"one": QUERY, "two": QUERY.replace("count(*)", "max(b.id)")}


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (Sink("parquet", "{out}/b"), "path"),
        (Sink("parquet", "{out}/a", partition_by=("id",)), "partition_by"),
        (Sink("parquet", "{out}/b", partition_by=("id",)), "path and partition_by"),
    ],
)
def test_what_differs_of_a_sink(opt: Optimizer, tmp_path: Path, other: Sink, differs: str) -> None:
    grow_ids(opt.session, tmp_path, 0)
    opt.materialize(QUERY, "one", state=tmp_path / "state", sink=Sink("parquet", tmp_path / "a"))
    now = Sink("parquet", str(other.path).format(out=tmp_path), other.partition_by)
    message = f"another sink: parquet, update; now: parquet, update, with another {differs}; name the sink"
    with pytest.raises(StateError, match=message):
        opt.materialize(QUERY, "one", state=tmp_path / "state", sink=now)


@pytest.mark.parametrize("harm", ["view.json cut", "parts cut", "rows gone"])
def test_one_harmed_view_among_several(opt: Optimizer, tmp_path: Path, harm: str) -> None:
    """What the error says to do is enough: the others go on, and the view is built again."""
    state, out = tmp_path / "state", tmp_path / "out"
    more: Any = {"state": state, "sinks": {"one": Sink("parquet", out)}}
    grow_ids(opt.session, tmp_path, 0)
    views = opt.materialize_all(ALL, **more)
    own = state / "views" / "one"
    if harm == "rows gone":
        next(own.glob("rows-*/kept-*.parquet")).unlink()
    else:
        file = own / "view.json" if harm == "view.json cut" else next(own.glob("parts-*.json"))
        file.write_text(file.read_text()[:-9])
    grow_ids(opt.session, tmp_path, 10)
    for refreshed in (views.refresh, lambda: opt.materialize_all(ALL, **more)):
        with pytest.raises(
            StateError, match=r"remove .*/views/one and what it wrote to its sink, and the view is built"
        ):
            refreshed()
    checked = dovetail("state", str(state), "--check")
    assert checked.exit_code != 0
    shutil.rmtree(own)
    shutil.rmtree(out)
    again = opt.materialize_all(ALL, **more)
    assert {tuple(row) for row in again["one"].table().collect()} == {(n, 1) for n in (0, 1, 10, 11)}
    assert opt.session.read.parquet(str(out)).count() == 4


def test_a_view_that_others_left_out_and_that_is_removed(opt: Optimizer, tmp_path: Path) -> None:
    grow_ids(opt.session, tmp_path, 0)
    views = opt.materialize_all(ALL, state=tmp_path / "state")
    shutil.rmtree(tmp_path / "state" / "views" / "two")
    with pytest.raises(
        StateError, match=r"two/view\.json is missing; call opt\.materialize or opt\.materialize_all again"
    ):
        views.refresh()
    assert opt.materialize_all(ALL, state=tmp_path / "state")["two"].table().count() == 2


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("gone", ["checkpoint", "checkpoint/commits"])
def test_rows_without_their_checkpoint(opt: Optimizer, tmp_path: Path, together: bool, gone: str) -> None:
    """A new checkpoint would take all rows once more."""

    def refreshed() -> Counter[Any]:
        if together:
            return Counter(opt.materialize_all({"one": QUERY}, state=tmp_path / "state")["one"].table().collect())
        return Counter(opt.materialize(QUERY, "one", state=tmp_path / "state").table().collect())

    for first in (0, 10):
        grow_ids(opt.session, tmp_path, first)
        before = refreshed()
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    shutil.rmtree(tmp_path / "state" / gone)
    for _ in range(2):
        with pytest.raises(StateError, match=r"The checkpoint .* is missing or has lost its commits, and one has rows"):
            refreshed()
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "copy", tmp_path / "state")
    assert refreshed() == before


def test_the_command_takes_folders_as_messages_name_them(opt: Optimizer, tmp_path: Path) -> None:
    grow_ids(opt.session, tmp_path, 0)
    opt.materialize(QUERY, "one", state=tmp_path / "state")
    plain = dovetail("state", str(tmp_path / "state"), "--check")
    assert plain.exit_code == 0
    manifest = max((tmp_path / "state/checkpoint/dovetail").glob("epoch-*.json"))
    view = tmp_path / "state" / "view.json"
    for file in (manifest, view):
        kept = file.read_text()
        file.unlink()
        missing = dovetail("state", str(tmp_path / "state"), "--check")
        assert missing.exit_code == 2
        file.write_text(kept)
    for before in ("file:", "file://", "file://localhost"):
        assert dovetail("state", f"{before}{tmp_path / 'state'}", "--check").output == plain.output
    assert "s3a://x is not on this machine" in dovetail("state", "s3a://x").output
    assert "nothing: there is no such folder" in dovetail("state", "nothing").output.replace("\n", " ")
