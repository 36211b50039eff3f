"""What is kept of three streams and more: for how long, across crashes and restarts, and under which paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from dovetail import Optimizer, OptionError, StateError
from stream_feeds import Feed, Interrupted, interrupting, newest, out_of_order, run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stream_feeds import Row

BAND = "BETWEEN a.ts AND a.ts + INTERVAL 3 SECONDS"
BANDED = f"SELECT a.id, b.id AS bid, c.id AS cid FROM s a JOIN t b ON a.k = b.k AND b.ts {BAND} JOIN u c ON c.k = b.k"
TIMED = f"{BANDED} AND c.ts {BAND}"


def feeds(opt: Optimizer, folder: Path, names: str = "stu", delay: int | None = 5) -> list[Feed]:
    return [Feed(opt.session, folder / name, name, delay) for name in names]


def some(stream: int, epoch: int, size: int = 12) -> Sequence[Row]:
    return out_of_order(stream, epoch, size)


def test_rows_leave_once_no_other_stream_can_match_them(opt: Optimizer, tmp_path: Path) -> None:
    for n, feed in enumerate(feeds(opt, tmp_path)):
        for epoch in range(6):
            feed.add(some(n, epoch))
    found = run(opt, TIMED, tmp_path / "timed")
    untimed = run(opt, BANDED, tmp_path / "banded")
    assert sum(untimed.values()) > sum(found.values()) > 20
    kept = newest(tmp_path / "timed").inputs
    assert [i.read for i in kept] == [72, 72, 72]
    assert all(0 < i.rows <= 36 for i in kept), kept
    # Rows of a and b can meet another c at any time; so whatever is not late stays.
    assert [i.rows + i.late for i in newest(tmp_path / "banded").inputs] == [72, 72, 72]


def test_state_ttl_and_the_warning(opt: Optimizer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for n, feed in enumerate(feeds(opt, tmp_path, delay=None)):
        for epoch in range(2):
            feed.add(some(n, epoch))
    run(opt, BANDED, tmp_path / "for good")
    assert "no row of s and t and u ever leaves the state, which has s: 12 rows, " in caplog.text
    caplog.clear()
    run(opt, BANDED, tmp_path / "by the clock", state_ttl=1e-3)
    assert [i.rows for i in newest(tmp_path / "by the clock").inputs] == [12, 12, 12]
    assert not caplog.text
    with pytest.raises(OptionError, match="state_ttl is for joins on state modules; it joins more than two relations"):
        run(opt, BANDED.replace("JOIN u", "LEFT JOIN u"), tmp_path / "spark", state_ttl=1)


def test_an_epoch_that_is_cut_off_anywhere_is_done_again(
    opt: Optimizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt ends two writes further than the one before; a restart may take other paths than the start."""
    left, interrupted = interrupting(monkeypatch), 0
    three = feeds(opt, tmp_path)
    for attempt in range(1, 15, 2):
        for n, feed in enumerate(three):
            feed.add(some(n, attempt, 8 + 3 * n if attempt % 4 == 1 else 14 - 3 * n))
        left[0] = attempt
        try:
            run(opt, TIMED, tmp_path)
        except (StreamingQueryException, Interrupted):
            interrupted += 1
        left[0] = 0
    assert interrupted > 4
    found = run(opt, TIMED, tmp_path)
    assert found == run(opt, TIMED, tmp_path / "quiet")
    assert sum(found.values()) > 25
    for one, other in zip(newest(tmp_path).inputs, newest(tmp_path / "quiet").inputs, strict=True):
        assert (one.read, one.late, one.rows) == (other.read, other.late, other.rows)


def test_a_restart_goes_on_by_the_paths_that_suit_the_state(
    opt: Optimizer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dovetail")
    star = "SELECT a.id, b.id AS bid, c.id AS cid FROM s a JOIN t b ON a.id = b.id JOIN u c ON a.k = c.k"
    three = feeds(opt, tmp_path)
    for feed, size in zip(three, (5, 3, 20), strict=True):
        feed.add([(n % 7, n % 3, n) for n in range(size)])
    begun = run(opt, star, tmp_path)
    assert "new rows of a look up b by id, then c by k" in caplog.text
    assert "new rows of a look up c by k, then b by id" not in caplog.text
    for feed in three:
        feed.add([(n % 7, n % 3, 30 + n) for n in range(5)])
    later = run(opt, star, tmp_path)
    assert "new rows of a look up c by k, then b by id" in caplog.text
    assert later == run(opt, star, tmp_path / "at once")
    assert sum(later.values()) > sum(begun.values()) > 5
    with pytest.raises(StateError, match="belongs to another query"):
        run(opt, star.replace("a.k = c.k", "a.k = c.id"), tmp_path)


def test_the_rows_of_sparks_own_join(opt: Optimizer, tmp_path: Path) -> None:
    for n, feed in enumerate(feeds(opt, tmp_path)):
        feed.add(some(n, 0))
        feed.add(some(n, 1))
    found = run(opt, BANDED, tmp_path / "ours")
    assert found == run(opt, BANDED, tmp_path / "sparks", state_modules=False)
    assert sum(found.values()) > 20
