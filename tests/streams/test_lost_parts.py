"""Any file or folder of a state may be lost: what comes next is right or an error, and `--check` names what is lost."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from command_line import dovetail
from dovetail import Optimizer, Sink, StateError
from dovetail.executor.state.folder import LocalFolder
from dovetail.executor.state.parts import Parts, read_parts, write_parts
from stream_feeds import grow_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COUNTS = "SELECT a.id, count(*) AS n FROM s a JOIN t b ON a.id = b.id GROUP BY a.id"
PAIRS = "SELECT a.id, b.id AS other FROM s a JOIN t b ON a.id = b.id"
UNNOTICED = {
    ".": "a state of an earlier moment is whole",
    "checkpoint/commits/1": "as after a kill before the end of an epoch",
    "commits/1": "the same",
    "views": "removing the folder of a view is how it is built again",
    "views/counts": "the same",
    "views/pairs": "the same",
}
"""What `--check` cannot know to be lost; what comes next is right or an error all the same."""


def stream(opt: Optimizer, folder: Path) -> None:
    started = opt.stream(
        PAIRS,
        checkpoint=str(folder / "state"),
        sink=Sink("parquet", folder / "out"),
        trigger="available now",
        state_modules=True,
    )
    started.awaitTermination()


def materialize(opt: Optimizer, folder: Path) -> None:
    opt.materialize(COUNTS, "counts", state=folder / "state", sink=Sink("parquet", folder / "out"))


def materialize_all(opt: Optimizer, folder: Path) -> None:
    views = {"counts": COUNTS, "pairs": PAIRS}
    opt.materialize_all(views, state=folder / "state", sinks={"counts": Sink("parquet", folder / "out")})


def parts(state: Path) -> Iterator[Path]:
    """One file or folder of each kind: names that differ in numbers and hashes only are of one kind."""
    met: set[str] = set()
    for path in sorted(state.rglob("*"), reverse=True):
        name = str(path.relative_to(state))
        kind = re.sub(r"[0-9a-f]{8,}(-[0-9a-f]+)*|\d+", "#", name)
        if kind not in met and not name.endswith(".crc"):
            met.add(kind)
            yield path


def rows_of(opt: Optimizer, way: Callable[..., None], out: Path) -> tuple[Counter[Any], Counter[Any]]:
    """What the sink adds up to, read by plain Spark, and what Spark returns for the query on all rows."""
    session = opt.session.newSession()
    for name in ("s", "t"):
        session.read.parquet(str(out.parent / name)).createOrReplaceTempView(name)
    written = session.read.parquet(str(out)).collect()
    if way is stream:
        return Counter(tuple(r) for r in written), Counter(tuple(r) for r in session.sql(PAIRS).collect())
    total: Counter[Any] = Counter()
    for row in written:
        total[(row.id, row.n)] += 1 if row["_change_type"].startswith(("insert", "update_post")) else -1
    return +total, Counter(tuple(r) for r in session.sql(COUNTS).collect())


def refresh_after(harm: Callable[[], None], opt: Optimizer, way: Callable[..., None], folder: Path, name: str) -> str:
    """What is wrong with the next refresh after some harm to copies of a state and its sink; nothing if it is right."""
    state, out = folder / "state", folder / "out"
    for found in (state, out):
        shutil.rmtree(found)
        shutil.copytree(folder / f"copy-{found.name}", found)
    harm()
    passes = dovetail("state", str(state), "--check").exit_code == 0
    try:
        way(opt, folder)
    except (StateError, PySparkException) as error:
        return f"{name}: --check passes; {str(error)[:200]}" if passes and name not in UNNOTICED else ""
    got, wanted = rows_of(opt, way, out)
    return f"{name}: too many {got - wanted}, lost {wanted - got}" if got != wanted else ""


@pytest.mark.parametrize("way", [stream, materialize, materialize_all])
def test_after_a_loss_the_next_refresh_is_right_or_an_error(
    opt: Optimizer, tmp_path: Path, way: Callable[..., None]
) -> None:
    for first in (0, 10):
        grow_ids(opt.session, tmp_path, first)
        way(opt, tmp_path)
    grow_ids(opt.session, tmp_path, 20)
    for name in ("state", "out"):
        shutil.copytree(tmp_path / name, tmp_path / f"copy-{name}")
    checked = dovetail("state", str(tmp_path / "state"), "--check")
    assert checked.exit_code == 0, checked.output
    wrong = [refresh_after(lambda: None, opt, way, tmp_path, "nothing is lost")]
    for part in parts(tmp_path / "copy-state"):
        lost = tmp_path / "state" / part.relative_to(tmp_path / "copy-state")
        harm = partial(shutil.rmtree, lost) if part.is_dir() else lost.unlink
        wrong.append(refresh_after(harm, opt, way, tmp_path, str(lost.relative_to(tmp_path / "state"))))
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.parametrize("way", [stream, materialize, materialize_all])
def test_after_a_part_is_restored_the_next_refresh_is_right_or_an_error(
    opt: Optimizer, tmp_path: Path, way: Callable[..., None]
) -> None:
    """From a copy of an earlier moment, and the rest is of now."""
    for first in (0, 10, 20):
        grow_ids(opt.session, tmp_path, first)
        way(opt, tmp_path)
        if first == 0:
            shutil.copytree(tmp_path / "state", tmp_path / "older")
    grow_ids(opt.session, tmp_path, 30)
    for name in ("state", "out"):
        shutil.copytree(tmp_path / name, tmp_path / f"copy-{name}")
    folders = [path for path in parts(tmp_path / "older") if path.is_dir()]
    wrong = []
    for older in (tmp_path / "older", *folders):
        name = str(older.relative_to(tmp_path / "older"))

        def harm(path: Path = tmp_path / "state" / name, older: Path = older) -> None:
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(older, path)

        wrong.append(refresh_after(harm, opt, way, tmp_path, name))
    assert not any(wrong), "\n".join(filter(None, wrong))


def test_a_list_that_is_replaced_while_it_is_read(tmp_path: Path) -> None:
    """As by a refresh while another thread or process reads the view."""
    folder = LocalFolder(tmp_path)
    (tmp_path / "rows-000000000000").mkdir()
    write_parts(folder, Parts())
    numbers: list[int] = []
    with ThreadPoolExecutor(1) as pool:

        def replace_lists() -> None:
            for number in range(1, 500):
                write_parts(folder, Parts(number))

        writing = pool.submit(replace_lists)
        while not writing.done():
            numbers.append(read_parts(folder).number)
    assert numbers == sorted(numbers)
    assert read_parts(folder).number == 500


def test_a_reader_sees_refreshes_that_have_ended_and_no_half_of_one(opt: Optimizer, tmp_path: Path) -> None:
    """A view is read by one thread while another refreshes it; each refresh adds two rows."""
    grow_ids(opt.session, tmp_path, 0)
    view = opt.materialize("SELECT a.id FROM s a JOIN t b ON a.id = b.id", "one", state=tmp_path / "state")
    counts = [view.table().count()]
    with ThreadPoolExecutor(1) as pool:

        def refresh_often() -> None:
            for start in range(10, 60, 10):
                grow_ids(opt.session, tmp_path, start)
                view.refresh()

        refreshing = pool.submit(refresh_often)
        while not refreshing.done():
            counts.append(view.table().count())
        refreshing.result()
    assert counts == sorted(counts)
    assert {count % counts[0] for count in counts} == {0}
    assert len(set(counts)) > 2
    assert view.table().count() == 6 * counts[0]


def test_rows_of_an_epoch_that_has_not_ended_are_not_shown(opt: Optimizer, tmp_path: Path) -> None:
    """As if a refresh began between the look at the list of files and the look at the files."""
    grow_ids(opt.session, tmp_path, 0)
    view = opt.materialize("SELECT a.id FROM s a JOIN t b ON a.id = b.id", "one", state=tmp_path / "state")
    before = view.table().count()
    view.rows.add(view.table(), 1)
    assert view.table().count() == before
    assert view.rows.read().count() == 2 * before
