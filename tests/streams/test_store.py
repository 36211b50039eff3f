"""The store of a state, and looking at it from the command line; no Spark needed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from command_line import dovetail
from dovetail.executor.state.folder import LocalFolder
from dovetail.executor.state.store import Store
from dovetail.planner.errors import StateError
from dovetail.planner.state.compaction import FAN_IN, FEW_ROWS, MERGED_ROWS, expired, reachable, to_rewrite
from dovetail.planner.state.manifest import Change, InputState, Manifest, Segment
from dovetail.planner.state.program import EpochProgram
from dovetail.planner.state.spec import Input, Reach, Side, StoredColumn, StreamJoin
from dovetail.planner.state.time import side_time, watermark

if TYPE_CHECKING:
    from pathlib import Path

INPUT = Input("s", "s", (StoredColumn("c0", "k", "int"),), "", "", "", "", 0, ("k",), "", "", False)
SIDE = Side(0, (("k", "k"),), "", "")
JOIN = StreamJoin(
    "SELECT 1", "inner", (INPUT,), (SIDE, SIDE), (), EpochProgram(), ("", ""), ("a.k = b.k",), "a.k = b.k", ()
)


def segment(name: str = "rows-0", **more: object) -> Segment:
    given = {"rows": 7, "marks": ((0, 10),), "times": (0, 10), "expires": None, "arrived": 0, **more}
    return Segment(name, (("part-0.parquet", 4),), **given)  # type: ignore[arg-type]


def inside(folder: Path) -> list[str]:
    """What a folder has; the file with the name for sinks without the hash of its place."""
    return sorted("name" if p.name.startswith("name-") else p.name for p in folder.iterdir())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A state after epoch 3, of one segment."""
    found = Store(LocalFolder(tmp_path))
    found.open(JOIN)
    (tmp_path / "dovetail" / "rows-3").mkdir()
    (tmp_path / "dovetail" / "rows-3" / "part-0.parquet").write_bytes(b"1234")
    found.commit(Manifest(3, (InputState((segment("rows-3"),), 9, 2),), (None, None), 12_345))
    (tmp_path / "metadata").touch()
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
        (tmp_path / log / "3").touch()
    return found


def test_it_goes_on_with_its_own(store: Store) -> None:
    name = store.open(JOIN)
    assert store.open(JOIN) == name
    assert store.before(4, 1).inputs[0].late == 2
    assert store.before(0, 1) == Manifest(-1, (InputState(),))
    with pytest.raises(StateError, match=r"epoch-000000000002\.json is missing"):
        store.before(3, 1)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(JOIN, text="SELECT 2"), "another query: SELECT 1"),
        (replace(JOIN, settings=(("spark.sql.ansi.enabled", "true"),)), "other settings"),
        (replace(JOIN, inputs=(replace(INPUT, columns=(StoredColumn("c0", "k", "bigint"),)),)), "k int; now k bigint"),
        (replace(JOIN, inputs=(replace(INPUT, delay=5),)), "another plan"),
    ],
)
def test_not_with_others(store: Store, other: StreamJoin, said: str) -> None:
    with pytest.raises(StateError, match=said):
        store.open(other)


def test_a_comment_in_the_query_does_not_hide_the_rest(tmp_path: Path) -> None:
    store = Store(LocalFolder(tmp_path))
    store.open(replace(JOIN, text="SELECT 1 -- all\nFROM t"))
    with pytest.raises(StateError, match="another query: SELECT 1 FROM t;"):
        store.open(JOIN)


def test_what_a_crash_has_left_behind_goes(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "dovetail"
    for name in ("rows-4", "merged-4-0"):
        (folder / name).mkdir()
    store.commit(Manifest(4, ()))
    store.clean(store.manifest(3), all_of_it=True)
    assert inside(folder) == ["epoch-000000000003.json", "name", "query.json", "rows-3"]


def test_half_a_first_offset_goes(tmp_path: Path) -> None:
    """As a driver leaves it that is killed while Spark writes it; Spark would refuse the checkpoint for it."""
    store = Store(LocalFolder(tmp_path))
    store.open(JOIN)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / ".0.1f4a.tmp").touch()
    store.open(JOIN)
    assert not (tmp_path / "offsets").exists()
    (tmp_path / "offsets").mkdir()
    for name in ("0", ".1.25bc.tmp"):
        (tmp_path / "offsets" / name).touch()
    store.open(JOIN)
    assert len(list((tmp_path / "offsets").iterdir())) == 2


@pytest.mark.parametrize(
    ("log", "newest", "lost"),
    [
        ("offsets", 2, "offsets/3"),
        ("offsets", 4, ""),
        ("offsets", 5, "epoch-000000000004.json"),
        ("commits", 1, "commits/2"),
        ("commits", 2, ""),
        ("commits", 4, "epoch-000000000004.json"),
    ],
)
def test_logs_of_spark_that_do_not_fit(store: Store, tmp_path: Path, log: str, newest: int, lost: str) -> None:
    """One epoch before or after the newest manifest, of epoch 3, a driver may have been killed."""
    (tmp_path / log / "3").rename(tmp_path / log / str(newest))
    if lost:
        with pytest.raises(StateError, match=f"{lost} is missing"):
            store.open(JOIN)
        assert f"{lost} is missing" in dovetail("state", tmp_path, "--check").stderr
    else:
        store.open(JOIN)


def test_obsolete_segments_go_once_the_next_epoch_has_begun(store: Store, tmp_path: Path) -> None:
    (tmp_path / "dovetail" / "rows-2" / "input=0").mkdir(parents=True)
    after = Manifest(4, (InputState(),), obsolete=("rows-3", "rows-2/input=0"))
    store.clean(store.manifest(3), all_of_it=False)
    store.commit(after)
    assert (tmp_path / "dovetail" / "rows-3").is_dir()
    store.clean(after, all_of_it=False)
    assert inside(tmp_path / "dovetail") == [
        "epoch-000000000004.json",
        "name",
        "query.json",
    ]


def test_the_command(store: Store, tmp_path: Path) -> None:
    done = dovetail("state", tmp_path, "--check")
    assert done.exit_code == 0, done.stderr
    assert "every file is there" in done.stdout
    told = json.loads(dovetail("state", tmp_path, "--json").stdout)
    assert told["epoch"] == 3
    assert told["watermark"] == "1970-01-01 00:00:12.345"
    assert told["inputs"] == [
        {"input": "s", "rows": 7, "bytes": 4, "files": 1, "segments": 1}
        | {"oldest": "1970-01-01 00:00:00", "newest": "1970-01-01 00:00:00.00001", "read": 9, "late": 2}
    ]
    (tmp_path / "dovetail" / "rows-3" / "part-0.parquet").write_bytes(b"123")
    done = dovetail("state", tmp_path, "--check")
    assert done.exit_code == 2
    assert "part-0.parquet is damaged: it has 3 bytes, and had 4" in done.stderr
    for wrong in (tmp_path / "nothing", "hdfs://there/it"):
        assert dovetail("state", wrong).exit_code == 2
    store.folder.delete("epoch-000000000003.json")
    assert "no epoch has ended yet" in dovetail("state", tmp_path).stderr


def test_segments_that_a_probe_opens() -> None:
    """large - small is at least 5: the small mark is of the left side, the large one of the right."""
    reach = (Reach((0, 0), (1, 0), 5),)
    low, high = segment("low", marks=((0, 10),)), segment("high", marks=((20, 30),))
    assert reachable((low, high), 1, ((5, 6),), reach) == (low, high)
    assert reachable((low, high), 1, ((6, 7),), reach) == (high,)
    assert reachable((low, high), 0, ((4, 4),), reach) == ()
    assert reachable((low, high), 0, ((5, 25),), reach) == (low, high)
    assert reachable((low, high), 0, ((5, 24),), reach) == (low,)
    assert reachable((segment(marks=(None,)),), 0, ((0, 99),), reach) == ()


def test_segments_that_have_had_their_time() -> None:
    found = [
        segment("never", expires=None, arrived=9),
        segment("first", expires=1_000, arrived=1),
        segment("second", expires=2_001, arrived=2),
    ]
    assert [s.folder for s in expired(found, 2, None)] == ["first"]
    assert [s.folder for s in expired(found, None, 2)] == ["first"]
    assert [s.folder for s in expired(found, 3, 10)] == ["never", "first", "second"]


def test_a_merge_takes_the_place_of_what_it_merged() -> None:
    old = [segment(str(n)) for n in range(FAN_IN + 1)]
    assert to_rewrite(old[1:8], None) == ()
    group = to_rewrite([segment("big", tier=1), *old], None)
    assert [s.folder for s in group] == [str(n) for n in range(FAN_IN)]
    change = Change([InputState((segment("big", tier=1), *old))])
    change.put(0, group, segment("merged", tier=1))
    assert [s.folder for s in change.inputs[0].segments] == ["big", "merged", str(FAN_IN)]
    assert change.obsolete == [str(n) for n in range(FAN_IN)]


def test_segments_whose_rows_have_mostly_had_their_time() -> None:
    """Segments of one size; what is let lie is a sixteenth of all that is kept, or few rows in few segments."""
    old = segment("old", half=2_000, expires=9_000, rows=FEW_ROWS)
    for young, taken in ((2, ["old"]), (8, [])):
        others = [segment(str(n), half=5_000, expires=9_000, tier=n, rows=FEW_ROWS) for n in range(young)]
        assert [s.folder for s in to_rewrite([*others, old], 2)] == taken
        assert to_rewrite([*others, old], 1) == ()
        assert to_rewrite([*others, old], None) == ()
    assert [s.folder for s in to_rewrite([*others, old], 5)] == [*map(str, range(8)), "old"]
    big = segment("big", half=2_000, expires=9_000, rows=MERGED_ROWS + 1)
    assert to_rewrite([old, big, old], 2) == (big,)
    for rows, taken in ((FEW_ROWS, ["few"]), (FEW_ROWS - 1, [])):
        assert [s.folder for s in to_rewrite([segment("few", half=2_000, expires=9_000, rows=rows)], 2)] == taken
    small = [segment(str(n), half=2_000, expires=9_000, tier=n) for n in range(FAN_IN)]
    assert to_rewrite(small, 2) == tuple(small)
    assert to_rewrite(small[1:], 2) == ()


def test_rows_that_leave_are_merged_up_to_a_fourth_of_all() -> None:
    """A segment leaves with the last of its rows, so it must not span most of what is kept."""
    old = [segment(str(n), expires=9_000 + n) for n in range(FAN_IN)]
    more = [segment(f"more {n}", expires=9_000, tier=2 + n) for n in range(3 * FAN_IN)]
    assert to_rewrite([*more[1:], *old], None) == ()
    assert [s.folder for s in to_rewrite([*more, *old], None)] == [str(n) for n in range(FAN_IN)]


def test_versions_are_written_anew_once_they_have_doubled() -> None:
    few = [segment(str(n), tier=n) for n in range(FAN_IN)]
    assert to_rewrite(few, 2) == ()
    assert to_rewrite(few, 2, versions=True) == tuple(few)
    assert to_rewrite(few[1:], 2, versions=True) == ()
    for rows, taken in ((7 * (FAN_IN - 1), few), (7 * (FAN_IN - 1) + 1, [])):
        segments = [segment("large", tier=9, rows=rows), *few[1:]]
        assert len(to_rewrite(segments, 2, versions=True)) == len(taken)


def test_watermarks() -> None:
    assert side_time(None, None, 5) is None
    assert side_time(None, 12_999, 5) == 7
    assert side_time(9, 12_999, 5) == 9
    assert watermark(0, (7, None), "min") == 0
    assert watermark(0, (7, None), "max") == 7
    assert watermark(8, (7, 9), "min") == 8
