from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dovetail.executor.connectors import splits
from dovetail.executor.connectors.cache import Batch, RowCache, Span, gather, task_cache
from dovetail.executor.connectors.splits import load_split_cache, save_split_cache
from dovetail.planner.logical.lookup_spec import LookupSpec


def put(cache: RowCache, rows: dict[int, int]) -> None:
    """So many rows for each key, all in one table."""
    values = [f"{key}.{n}" for key, count in rows.items() for n in range(count)]
    table = pa.table({"v": pa.array(values, pa.string())})
    batch, start, entries = Batch(table), 0, []
    for key, count in rows.items():
        entries.append((key, Span(batch, start, count)))
        start += count
    cache.put(entries, table.num_rows)


def rows_of(span: Span | None) -> list[Any]:
    assert span is not None
    return span.batch.rows.slice(span.start, span.length)["v"].to_pylist()  # type: ignore[no-any-return]


@given(
    st.integers(0, 5),
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.dictionaries(st.integers(0, 9), st.integers(0, 3), min_size=1)),
            st.tuples(st.just("get"), st.integers(0, 9)),
            st.tuples(st.just("wait"), st.integers(1, 7)),
        )
    ),
)
def test_it_remembers_what_a_dict_with_times_remembers(size: int, steps: list[tuple[str, Any]]) -> None:
    now = 0.0
    cache = RowCache(size, ttl=10.0, clock=lambda: now)
    model: OrderedDict[int, tuple[int, float]] = OrderedDict()
    for what, how in steps:
        if what == "put":
            put(cache, how)
            for key, count in how.items():
                model.pop(key, None)
                model[key] = (count, now + 10)
            while len(model) > size:
                model.popitem(last=False)
        elif what == "wait":
            now += how
        else:
            span = cache.get(how)
            if how in model and model[how][1] <= now:
                del model[how]
            if how not in model:
                assert span is None
            else:
                model.move_to_end(how)
                assert rows_of(span) == [f"{how}.{n}" for n in range(model[how][0])]
    assert len(cache) == len(model)


def test_rows_of_keys_that_have_gone_are_let_go() -> None:
    cache = RowCache(10, ttl=None)
    for n in range(1000):
        put(cache, dict.fromkeys(range(n, n + 3), 100))
    held = {span.batch: span.batch.rows.num_rows for key in range(1100) if (span := cache.get(key))}
    assert len(cache) == 10
    assert sum(held.values()) < 15_000
    assert all(rows_of(cache.get(key)) == [f"{key}.{n}" for n in range(100)] for key in range(992, 1002))


def test_spans_are_gathered_in_their_order() -> None:
    one, two = Batch(pa.table({"v": ["a", "b", "c"]})), Batch(pa.table({"v": ["d", "e"]}))
    table, spans = gather([Span(two, 1, 1), Span(one, 0, 0), Span(one, 1, 2)])
    assert table is not None
    assert table["v"].to_pylist() == ["e", "b", "c"]
    assert [(span.start, span.length) for span in spans] == [(0, 1), (1, 0), (1, 2)]
    assert gather([]) == (None, [])


def test_without_a_time_to_live_a_cache_ends_with_its_stage() -> None:
    spec = LookupSpec("T", ("id",), ("id",))
    first = task_cache("a lookup", "stage 1", spec)
    assert task_cache("a lookup", "stage 1", spec) is first
    assert task_cache("another lookup", "stage 1", spec) is not first
    assert task_cache("a lookup", "stage 2", spec) is not first


def test_with_a_time_to_live_a_cache_outlives_its_stage() -> None:
    spec = LookupSpec("T", ("id",), ("id",), cache_ttl=60.0)
    assert task_cache("a lasting lookup", "stage 1", spec) is task_cache("a lasting lookup", "stage 2", spec)


# Shares, which another worker may get next.

SHARED = LookupSpec("T", ("id",), ("id",), cache_size=4, cache_ttl=60.0, shuffle=True)


def in_another_worker(where: Path, share: int) -> RowCache:
    """The cache of a share as a process reads it that knows nothing yet."""
    splits._read.clear()
    return load_split_cache(where, "print", share, SHARED)


def test_a_share_is_what_the_last_worker_made_of_it(tmp_path: Path) -> None:
    where = tmp_path / "lookups"
    cache = load_split_cache(where, "print", 3, SHARED)
    put(cache, {1: 2, 2: 0, 3: 1, 4: 1, 5: 1})
    save_split_cache(where, "print", 3, cache)
    assert load_split_cache(where, "print", 3, SHARED) is cache
    other = in_another_worker(where, 3)
    assert {key: rows_of(span) for key in range(6) if (span := other.get(key))} == {
        2: [],
        3: ["3.0"],
        4: ["4.0"],
        5: ["5.0"],
    }
    put(other, {6: 1})
    save_split_cache(where, "print", 3, other)
    assert [key for key in range(9) if in_another_worker(where, 3).get(key)] == [3, 4, 5, 6]
    assert len(in_another_worker(where, 2)) == 0
    assert where.stat().st_mode & 0o777 == 0o700


def test_a_share_that_learned_nothing_is_not_written(tmp_path: Path) -> None:
    cache = load_split_cache(tmp_path, "print", 0, SHARED)
    cache.get(1)
    save_split_cache(tmp_path, "print", 0, cache)
    assert not list(tmp_path.iterdir())


def test_a_share_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    cache = load_split_cache(tmp_path, "print", 1, SHARED)
    put(cache, {1: 1})
    save_split_cache(tmp_path, "print", 1, cache)
    file = next(tmp_path.iterdir())
    file.write_bytes(file.read_bytes()[:20])
    assert len(in_another_worker(tmp_path, 1)) == 0


def test_what_is_too_old_is_forgotten_by_every_worker(tmp_path: Path) -> None:
    cache = load_split_cache(tmp_path, "old", 0, replace(SHARED, cache_ttl=0.0))
    put(cache, {1: 1})
    save_split_cache(tmp_path, "old", 0, cache)
    splits._read.clear()
    assert load_split_cache(tmp_path, "old", 0, SHARED).get(1) is None
