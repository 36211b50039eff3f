"""The fetch loop over a source of a user's own, one that can be slow, wrong and gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.executor.connectors.cache import RowCache
from dovetail.executor.connectors.fetch import Fetcher
from dovetail.executor.connectors.source import LookupSource
from dovetail.planner.errors import LookupFailed, SourceError
from dovetail.planner.logical.lookup_spec import LookupSpec
from waiting import DEADLINE, until

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("name", pa.string())])
ROWS = [(n, "ab"[n % 2], f"name {n}") for n in range(40)] + [(7, "b", "second 7"), (None, "a", "nobody")]


@dataclass
class Book:
    """What all copies of a source saw."""

    asked: list[list[dict[str, Any]]] = field(default_factory=list)
    opened: int = 0
    closed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


FAR = pa.schema([("day", pa.date32()), ("at", pa.timestamp("us", "UTC"))])


class Names(LookupSource):
    """Answers from ROWS; ``fault`` is called with the number of the round trip and the answer, and may change it."""

    def __init__(self, fault: Callable[[int, pa.Table, pa.Table], pa.Table] | None = None) -> None:
        self.book = Book()
        self.fault = fault
        self.is_open = False

    def schema(self) -> pa.Schema:
        return SCHEMA

    def open(self) -> None:
        self.is_open = True
        with self.book.lock:
            self.book.opened += 1

    def close(self) -> None:
        if self.is_open:
            with self.book.lock:
                self.book.closed += 1
        self.is_open = False

    def fetch(self, keys: pa.Table) -> pa.Table:
        assert self.is_open
        with self.book.lock:
            self.book.asked.append(keys.to_pylist())
            number = len(self.book.asked)
        wanted = {tuple(key.values()) for key in keys.to_pylist()}
        places = [SCHEMA.names.index(name) for name in keys.column_names]
        found = [row for row in reversed(ROWS) if tuple(row[place] for place in places) in wanted]
        answer = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in found], SCHEMA)
        return self.fault(number, keys, answer) if self.fault else answer


def spec(**more: Any) -> LookupSpec:
    given: dict[str, Any] = {"table": "Names", "keys": ("id",), "columns": ("id", "name"), "delay": 0.0, **more}
    return LookupSpec(**given)


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def fetch(source: LookupSource, spec: LookupSpec, *tables: pa.Table) -> tuple[list[tuple[Any, ...]], Fetcher]:
    fetcher = Fetcher(source, spec, SCHEMA)
    try:
        answers = list(fetcher.answers(tables))
    finally:
        fetcher.close()
    return [tuple(row.values()) for answer in answers for row in answer.rows.to_pylist()], fetcher


def failure(source: LookupSource, spec: LookupSpec, keys: pa.Table) -> str:
    with pytest.raises(LookupFailed) as failed:
        fetch(source, spec, keys)
    assert failed.value.__cause__ is None
    return str(failed.value)


# What is asked for, and how often.


@given(
    st.lists(st.lists(st.integers(-3, 45), max_size=30), max_size=6),
    st.integers(1, 12),
    st.booleans(),
)
def test_every_key_is_asked_for_once_in_full_batches(parts: list[list[int]], batch: int, asynchronous: bool) -> None:
    keys = list(dict.fromkeys(key for part in parts for key in part))
    cuts = [keys[start : start + 7] for start in range(0, len(keys), 7)]
    source = Names()
    rows, fetcher = fetch(source, spec(batch=batch, asynchronous=asynchronous), *(ids(*cut) for cut in cuts))
    assert sorted(rows) == sorted((row[0], row[2]) for row in ROWS if row[0] in keys)
    asked = [key["id"] for part in source.book.asked for key in part]
    assert sorted(asked) == sorted(keys)
    assert len(source.book.asked) == -(-len(keys) // batch)
    counters = fetcher.counters
    assert (counters.keys, counters.fetches, counters.rows) == (len(keys), len(source.book.asked), len(rows))
    assert source.book.closed == source.book.opened


def test_answers_come_in_the_order_of_the_keys() -> None:
    fetcher = Fetcher(Names(), spec(batch=3, asynchronous=True), SCHEMA)
    answers = list(fetcher.answers([ids(9, 7, 100, 3, 5)]))
    fetcher.close()
    assert [answer.counts for answer in answers] == [[1, 2, 0], [1, 1]]
    assert [answer.rows["id"].to_pylist() for answer in answers] == [[9, 7, 7], [3, 5]]


def test_constants_go_to_the_fetch() -> None:
    source = Names()
    rows, _ = fetch(source, spec(constants=(("kind", "b"),)), ids(6, 7))
    assert sorted(rows) == [(7, "name 7"), (7, "second 7")]
    assert source.book.asked == [[{"id": 6, "kind": "b"}, {"id": 7, "kind": "b"}]]


def test_constants_that_a_source_cannot_be_asked_by_are_compared_after_the_fetch() -> None:
    source = Names()
    source.fetch_keys = (("id",),)
    rows, _ = fetch(source, spec(constants=(("kind", "b"),)), ids(6, 7))
    assert sorted(rows) == [(7, "name 7"), (7, "second 7")]
    assert source.book.asked == [[{"id": 6}, {"id": 7}]]


def test_a_key_beyond_the_dates_of_python_is_shown_in_an_error() -> None:
    class Far(Names):
        def schema(self) -> pa.Schema:
            return FAR

        def fetch(self, keys: pa.Table) -> pa.Table:
            raise ValueError("no")

    days = pa.array([6585322, -800000, 10_000_000], pa.int32()).cast(pa.date32())
    times = pa.array([2**62, -(2**62), 0]).cast(pa.timestamp("us", "UTC"))
    fetcher = Fetcher(Far(), spec(keys=("day", "at"), columns=("day",)), FAR)
    with pytest.raises(
        LookupFailed, match=r"6,585,322 date32\[day\], 4,611,686,018,427,387,904 timestamp\[us, tz=UTC\]"
    ):
        list(fetcher.answers([pa.table({"day": days, "at": times})]))
    fetcher.close()


def test_composite_keys() -> None:
    keys = pa.table({"kind": ["a", "b", "b"], "id": pa.array([4, 4, 7], pa.int64())})
    rows, _ = fetch(Names(), spec(keys=("kind", "id"), columns=("name",)), keys)
    assert sorted(rows) == [("name 4",), ("name 7",), ("second 7",)]


def test_a_column_that_does_not_exist_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(SourceError, match="Names has no column nme; columns: id, kind, name"):
        Fetcher(Names(), spec(columns=("id", "nme")), SCHEMA)


@pytest.mark.parametrize("constant", [("kind", 3), ("id", "x"), ("id", 10**30), ("id", 2**63)])
@pytest.mark.parametrize("fetch_keys", [None, (("id",),)])
def test_a_constant_that_its_column_cannot_have_finds_nothing(
    constant: tuple[str, object], fetch_keys: tuple[tuple[str, ...], ...] | None
) -> None:
    source = Names()
    source.fetch_keys = fetch_keys
    keys = ids(6, 7) if constant[0] == "kind" else pa.table({"name": ["name 7"]})
    source.fetch_keys = fetch_keys and (("id",), ("name",))
    rows, fetcher = fetch(source, spec(keys=tuple(keys.column_names), constants=(constant,), retry_missing=True), keys)
    assert rows == []
    assert source.book.asked == []
    assert list(fetcher.read_split(0, 1)) == []


def test_a_source_says_by_which_columns_it_is_asked() -> None:
    source = Names()
    source.fetch_keys = (("id",), ("id", "kind"))
    with pytest.raises(SourceError, match="can be fetched by id or by id, kind, not by name"):
        Fetcher(source, spec(keys=("name",)), SCHEMA)


# The cache.


def test_the_cache_knows_rows_and_that_there_are_none() -> None:
    source, cache = Names(), RowCache(100, ttl=60.0)
    fetcher = Fetcher(source, spec(), SCHEMA)
    fetcher.look_up(ids(1, 7, 100), cache)
    found = fetcher.look_up(ids(100, 7, 2), cache)
    fetcher.close()
    assert {key: span.length for key, span in found.items()} == {100: 0, 7: 2, 2: 1}
    assert source.book.asked == [[{"id": 1}, {"id": 7}, {"id": 100}], [{"id": 2}]]
    assert (fetcher.counters.hits, fetcher.counters.misses) == (2, 4)


def test_more_keys_than_the_cache_holds_are_all_answered() -> None:
    cache = RowCache(5, ttl=60.0)
    fetcher = Fetcher(Names(), spec(batch=4), SCHEMA)
    found = fetcher.look_up(ids(*range(40)), cache)
    fetcher.close()
    assert [found[key].length for key in range(40)] == [2 if key == 7 else 1 for key in range(40)]
    assert len(cache) == 5


# Faults.


def fails(*numbers: int) -> Callable[[int, pa.Table, pa.Table], pa.Table]:
    def fault(number: int, _: pa.Table, answer: pa.Table) -> pa.Table:
        if number in numbers:
            raise OSError("the line is dead")
        return answer

    return fault


def test_a_round_trip_that_fails_is_tried_again_on_a_new_connection() -> None:
    source = Names(fails(1, 3))
    rows, fetcher = fetch(source, spec(batch=2), ids(1, 2, 3, 4))
    assert sorted(row[0] for row in rows) == [1, 2, 3, 4]
    assert (fetcher.counters.fetches, fetcher.counters.retries) == (4, 2)
    assert (source.book.opened, source.book.closed) == (3, 3)


def test_after_the_last_attempt_there_is_one_error() -> None:
    source = Names(fails(*range(100)))
    said = failure(source, spec(), ids(17, 4, 99, 5))
    assert said == (
        "lookup in Names (Names) failed for 4 keys, id = 17, 4, 99, …; 3 attempts; OSError: the line is dead"
    )
    assert source.book.opened == source.book.closed


def test_a_source_that_comes_back_while_halves_are_fetched_has_answered() -> None:
    rows, fetcher = fetch(Names(fails(1, 2, 3)), spec(), ids(1, 2, 3, 4))
    assert sorted(row[0] for row in rows) == [1, 2, 3, 4]
    assert fetcher.counters.fetches == 5
    error = failure(Names(fails(1, 2, 3, 5)), spec(), ids(1, 2, 3, 4, 5, 6))
    assert "failed for id = 4, 5, 6 among 6 keys" in error


def test_a_batch_that_is_too_large_is_answered_by_halves() -> None:
    def small(_: int, keys: pa.Table, answer: pa.Table) -> pa.Table:
        if keys.num_rows > 5:
            raise OSError("414 URI Too Long")
        return answer

    rows, _ = fetch(Names(small), spec(batch=10), ids(*range(1, 21)))
    assert sorted(row[0] for row in rows) == sorted(r[0] for r in fetch(Names(), spec(), ids(*range(1, 21)))[0])


def test_a_key_that_fails_is_named() -> None:
    def poison(_: int, keys: pa.Table, answer: pa.Table) -> pa.Table:
        if 23 in keys["id"].to_pylist():
            raise ValueError("cannot read 23")
        return answer

    said = failure(Names(poison), spec(), ids(*range(40)))
    assert "failed for id = 23 among 40 keys; 3 attempts; ValueError: cannot read 23" in said


def test_a_slow_answer_is_given_up_and_asked_for_again() -> None:
    let_go, source = threading.Event(), Names()

    def slow(number: int, _: pa.Table, answer: pa.Table) -> pa.Table:
        if number == 1:
            assert let_go.wait(DEADLINE)
        return answer

    source.fault = slow
    rows, fetcher = fetch(source, spec(timeout=0.2, attempts=100), ids(1))
    assert not let_go.is_set()
    assert rows == [(1, "name 1")]
    assert fetcher.counters.retries >= 1
    assert source.book.closed < source.book.opened
    let_go.set()
    assert until(lambda: source.book.closed == source.book.opened)


def test_answers_that_are_always_late_end_in_an_error_that_says_so() -> None:
    let_go = threading.Event()

    def late(number: int, keys: pa.Table, answer: pa.Table) -> pa.Table:
        assert let_go.wait(DEADLINE)
        return answer

    source = Names(late)
    said = failure(source, spec(timeout=0.05, attempts=2), ids(1))
    assert "failed for id = 1; 2 attempts; no answer within 0.05 seconds" in said
    let_go.set()
    assert until(lambda: source.book.opened == source.book.closed == 2)  # those that hung close when they come back


def with_another(answer: pa.Table, id_: int | None) -> pa.Table:
    more = answer.slice(0, 1).set_column(0, "id", pa.array([id_], pa.int64()))
    return pa.concat_tables([answer, more])


def renamed(answer: pa.Table) -> pa.Table:
    return answer.rename_columns(["id", "kind", "nom"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda answer: with_another(answer, 77), "a row came back that was not requested: id = 77"),
        (lambda answer: with_another(answer, None), "a row came back that was not requested: id = None"),
        (renamed, "the column name came back 0 times; columns: id, kind, nom"),
        (lambda answer: answer.drop_columns("name"), "the column name came back 0 times; columns: id, kind"),
        (
            lambda answer: answer.set_column(0, "id", answer["id"].cast(pa.string())),
            "the column id came back as string; it was int64",
        ),
        (lambda answer: answer.to_pylist(), "fetch returned list, not a pyarrow.Table"),
    ],
)
def test_a_wrong_answer_is_tried_again_and_then_an_error(wrong: Callable[[pa.Table], pa.Table], message: str) -> None:
    source = Names(lambda number, keys, answer: wrong(answer))
    said = failure(source, spec(columns=("id", "kind", "name")), ids(3))
    assert message in said
    assert "3 attempts" in said
    mended = Names(lambda number, keys, answer: wrong(answer) if number == 1 else answer)
    assert fetch(mended, spec(), ids(3))[0] == [(3, "name 3")]


def test_two_rows_for_a_unique_key_are_an_error() -> None:
    source = Names()
    source.unique_keys = (("id",),)
    assert "more than one row came back for a unique key: id = 7" in failure(source, spec(), ids(6, 7))
    source.unique_keys = (("id", "name"),)
    assert len(fetch(source, spec(), ids(6, 7))[0]) == 3


def test_layouts_of_one_type_are_one_type() -> None:
    def other_layout(_: int, keys: pa.Table, answer: pa.Table) -> pa.Table:
        return answer.set_column(2, "name", answer["name"].cast(pa.large_string()).dictionary_encode())

    assert fetch(Names(other_layout), spec(), ids(3))[0] == [(3, "name 3")]


def test_a_source_error_is_not_tried_again() -> None:
    def broken(number: int, keys: pa.Table, answer: pa.Table) -> pa.Table:
        raise SourceError("no such service")

    source = Names(broken)
    assert "1 attempt; no such service" in failure(source, spec(), ids(1))
    assert len(source.book.asked) == 1


def test_a_key_without_a_row_is_asked_for_again_where_that_is_wanted() -> None:
    def late(number: int, keys: pa.Table, answer: pa.Table) -> pa.Table:
        return answer if number == 3 else answer.filter(pa.array([key != 5 for key in answer["id"].to_pylist()]))

    source = Names(late)
    rows, fetcher = fetch(source, spec(retry_missing=True), ids(4, 5, 100))
    assert sorted(rows) == [(4, "name 4"), (5, "name 5")]
    assert source.book.asked == [[{"id": 4}, {"id": 5}, {"id": 100}], *[[{"id": 5}, {"id": 100}]] * 2]
    assert (fetcher.counters.retries, fetcher.counters.keys, fetcher.counters.rows) == (2, 3, 2)


def test_an_error_in_one_of_several_round_trips_at_once_ends_all() -> None:
    def one(_: int, keys: pa.Table, answer: pa.Table) -> pa.Table:
        if 13 in keys["id"].to_pylist():
            raise OSError("gone")
        return answer

    source = Names(one)
    assert "id = 13" in failure(source, spec(batch=1, asynchronous=True), ids(*range(40)))
    assert until(lambda: source.book.opened == source.book.closed)


def test_a_reader_that_stops_early_leaves_nothing_open() -> None:
    source = Names()
    fetcher = Fetcher(source, spec(batch=2), SCHEMA)

    def tables() -> Iterator[pa.Table]:
        yield ids(*range(40))

    next(fetcher.answers(tables()))
    fetcher.close()
    assert (source.book.opened, source.book.closed) == (1, 1)


# Shares.


class Scanned(Names):
    can_scan_split = True

    def scan_split(self, index: int, count: int, keys: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        assert keys == ("id",)
        rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in ROWS if (row[0] or 0) % count == index]
        self.book.asked.append(rows)
        for start in range(0, len(rows), 4):
            if self.fault is not None:
                self.fault(len(self.book.asked), pa.table({"start": [start]}), pa.table({}))
            yield pa.RecordBatch.from_pylist(rows[start : start + 4], SCHEMA)


def shares(source: LookupSource, count: int, **more: object) -> list[tuple[object, ...]]:
    found = []
    for index in range(count):
        fetcher = Fetcher(source, spec(**more), SCHEMA)
        try:
            found += [tuple(row.values()) for table in fetcher.read_split(index, count) for row in table.to_pylist()]
        finally:
            fetcher.close()
    return found


def by_text(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return sorted(rows, key=repr)


def test_shares_together_are_the_table() -> None:
    assert by_text(shares(Scanned(), 3)) == by_text([(row[0], row[2]) for row in ROWS])
    assert by_text(shares(Scanned(), 3, constants=(("kind", "a"),))) == by_text(
        [(row[0], row[2]) for row in ROWS if row[1] == "a"]
    )


def test_a_share_is_begun_again_only_before_its_first_rows() -> None:
    assert len(shares(Scanned(fails(1)), 3)) == len(ROWS)

    def later(number: int, where: pa.Table, answer: pa.Table) -> pa.Table:
        if where["start"][0].as_py() == 4:
            raise OSError("gone")
        return answer

    with pytest.raises(LookupFailed, match="failed for split 1 of 3; 1 attempt; OSError: gone"):
        shares(Scanned(later), 3)
