"""The HTTP connector against a real server on this machine."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from dovetail.executor.connectors.credentials import env
from dovetail.executor.connectors.fetch import Fetcher
from dovetail.executor.connectors.http import HttpSource
from dovetail.planner.errors import LookupFailed, SourceError
from dovetail.planner.logical.lookup_spec import LookupSpec
from servers import HttpService
from waiting import DEADLINE

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = [{"id": n, "name": f"name {n}"} for n in range(20)]


@pytest.fixture
def service() -> Iterator[HttpService]:
    service = HttpService(ROWS)
    yield service
    service.stop()


def source_of(service: HttpService, **more: Any) -> HttpSource:
    return HttpSource(service.url, **{"schema": SCHEMA, "keys": ("id",), "unique_keys": (("id",),), **more})


def fetch(source: HttpSource, keys: pa.Table, **more: Any) -> tuple[list[dict[str, Any]], Fetcher]:
    schema = source.schema()
    given = {"delay": 0.01, "batch": 5, **more}
    fetcher = Fetcher(source, LookupSpec("Names", tuple(keys.column_names), tuple(schema.names), **given), schema)
    try:
        return [row for answer in fetcher.answers([keys]) for row in answer.rows.to_pylist()], fetcher
    finally:
        fetcher.close()


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def failure(source: HttpSource, **more: Any) -> str:
    with pytest.raises(LookupFailed) as failed:
        fetch(source, ids(1), **more)
    return str(failed.value)


def test_many_keys_in_one_request_over_one_connection(service: HttpService) -> None:
    rows, fetcher = fetch(source_of(service), ids(*range(15, 25)))
    assert rows == ROWS[15:]
    assert [keys for _, _, keys in service.requests] == [[15, 16, 17, 18, 19], [20, 21, 22, 23, 24]]
    assert service.connections == 1
    assert fetcher.counters.fetches == 2


def test_a_get_with_a_list_of_keys(service: HttpService) -> None:
    source = HttpSource(f"{service.url}?v=2", schema=SCHEMA, keys=("id",), parameter="ids")
    assert fetch(source, ids(3, 4))[0] == ROWS[3:5]
    assert service.requests[0][0] == "/lookup?v=2&ids=3,4"


def test_rows_in_a_member_of_the_answer(service: HttpService) -> None:
    service.wrap = lambda rows: {"page": 1, "items": rows}
    assert fetch(source_of(service, rows="items"), ids(3))[0] == ROWS[3:4]
    assert "the answer is not a list of objects" in failure(source_of(service))
    assert "the member rows of the answer is not a list of objects" in failure(source_of(service, rows="rows"))


def test_types_there_and_back(service: HttpService) -> None:
    schema = pa.schema(
        [
            ("day", pa.date32()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("paid", pa.decimal128(10, 2)),
            ("share", pa.float64()),
            ("open", pa.bool_()),
            ("seal", pa.binary()),
        ]
    )
    first = {
        "day": "2024-02-29",
        "at": "2024-02-29T10:00:00+00:00",
        "paid": 10.25,
        "share": 1,
        "open": True,
        "seal": "AAE=",
    }
    service.rows = [first, {"day": "2024-03-01", "at": "2024-03-01T10:00:00+00:00"}]
    source = source_of(service, schema=schema, keys=("day", "at"), unique_keys=())
    moment = datetime(2024, 2, 29, 10, tzinfo=UTC)
    keys = pa.table(
        {
            "day": pa.array([date(2024, 2, 29), date(2024, 3, 1)]),
            "at": pa.array([moment, moment.replace(month=3, day=1)], pa.timestamp("us", tz="UTC")),
        }
    )
    rows, _ = fetch(source, keys)
    assert list(rows[0].values()) == [date(2024, 2, 29), moment, Decimal("10.25"), 1.0, True, b"\0\1"]
    assert list(rows[1].values())[2:] == [None] * 4
    assert service.requests[0][2][0] == {"day": "2024-02-29", "at": "2024-02-29T10:00:00+00:00"}


DAY, INSTANT, LOCAL = pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us")
ODD_KEYS = [
    (pa.float64(), float("nan"), "NaN"),
    (pa.float64(), float("inf"), "Infinity"),
    (pa.float32(), float("-inf"), "-Infinity"),
    (pa.float64(), -0.0, -0.0),
    (DAY, 3_672_434, "+12024-10-13"),
    (DAY, -735_563, "-0044-02-06"),
    (INSTANT, 253_402_300_800_000_000, "+10000-01-01T00:00:00+00:00"),
    (INSTANT, -62_167_219_200_000_001, "-0001-12-31T23:59:59.999999+00:00"),
    (LOCAL, 2**63 - 1, "+294247-01-10T04:00:54.775807"),
    (LOCAL, -(2**63), "-290308-12-21T19:59:05.224192"),
]


@pytest.mark.parametrize(("type_", "value", "written"), ODD_KEYS)
@pytest.mark.parametrize("parameter", [None, "ids"])
def test_keys_beyond_what_python_and_json_can_write(
    service: HttpService, type_: pa.DataType, value: Any, written: Any, parameter: str | None
) -> None:
    stored = {DAY: pa.int32(), INSTANT: pa.int64(), LOCAL: pa.int64()}.get(type_, type_)
    keys = pa.table({"key": pa.array([value], stored).view(type_)})
    source = HttpSource(
        service.url,
        schema=pa.schema([("key", type_), ("name", pa.string())]),
        keys=("key",),
        unique_keys=[["key"]],
        parameter=parameter,
    )
    asked: list[Any] = []

    def fault(handler: Any, number: int) -> bool:
        asked.extend(service.requests[-1][2])
        service.answer(handler, [{"key": written, "name": "found"}])
        return True

    service.fault = fault
    service.words = True
    fetcher = Fetcher(source, LookupSpec("Names", ("key",), ("key", "name"), attempts=1), source.schema())
    try:
        (answer,) = fetcher.answers([keys])
    finally:
        fetcher.close()
    assert asked == [written if parameter is None else str(written)]
    assert answer.counts == [1]
    assert repr(answer.rows["key"].combine_chunks().view(stored).to_pylist()) == repr([value])

    service.fault = lambda handler, number: bool(service.answer(handler, b"no", 500)) or True
    with pytest.raises(LookupFailed, match=r"failed for key = .*; 1 attempt; ConnectionError: status 500"):
        fetch(source, keys, attempts=1)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": 1, "name": 7}], "the column name came back as 7; it is string"),
        ([{"id": "1", "name": "x"}], "the column id came back as '1'; it is int64"),
        ([{"id": True, "name": "x"}], "the column id came back as True; it is int64"),
        ([{"id": 1, "nom": "x"}], "the column name did not come back; columns: id, nom"),
        ([{"id": 1, "name": "x"}, {"id": 1, "name": "y"}], "more than one row came back for a unique key: id = 1"),
        ([{"id": 2, "name": "x"}], "a row came back that was not requested: id = 2"),
        (["x"], "the answer is not a list of objects"),
        ([{"id": 1.5, "name": "x"}], "the column id came back as 1.5; it is int64"),
        ([{"id": 1, "name": float("nan")}], 'NaN is not a JSON number; write "NaN"'),
    ],
)
def test_a_wrong_answer_is_an_error(service: HttpService, rows: list[Any], message: str) -> None:
    service.wrap = lambda _: rows
    said = failure(source_of(service))
    assert message in said
    assert "failed for id = 1; 3 attempts" in said


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (503, b"try later", "status 503 Service Unavailable: try later"),
        (302, b"", "status 302 Found"),
        (200, b"<html>", "the answer is not JSON"),
    ],
)
def test_what_is_no_answer_is_asked_for_again(service: HttpService, status: int, body: bytes, message: str) -> None:
    def fault(handler: Any, number: int) -> bool:
        if number < 3:
            service.answer(handler, body, status)
        return number < 3

    service.fault = fault
    assert fetch(source_of(service), ids(1))[0] == ROWS[1:2]
    assert len(service.requests) == 3
    service.requests.clear()
    assert message in failure(source_of(service), attempts=2)


def test_a_dead_server_and_one_that_comes_back(service: HttpService) -> None:
    service.stop()
    assert "3 attempts; ConnectionRefusedError" in failure(source_of(service))
    back = threading.Timer(0.3, service.start)
    back.start()
    assert fetch(source_of(service), ids(1), attempts=100_000)[0] == ROWS[1:2]
    back.join()


def test_a_connection_that_the_server_closed_is_opened_again(service: HttpService) -> None:
    def fault(handler: Any, number: int) -> bool:
        handler.close_connection = True  # without a word, after the answer
        return False

    service.fault = fault
    rows, fetcher = fetch(source_of(service), ids(*range(15)))
    assert rows == ROWS[:15]
    assert fetcher.counters.retries == 0
    assert service.connections == 3


def test_a_slow_server_is_given_up(service: HttpService) -> None:
    let_go = threading.Event()

    def fault(handler: Any, number: int) -> bool:
        return number == 1 and let_go.wait(DEADLINE)

    service.fault = fault
    try:
        rows, fetcher = fetch(source_of(service), ids(1), timeout=0.5, attempts=100)
        assert not let_go.is_set()
    finally:
        let_go.set()
    assert rows == ROWS[1:2]
    assert fetcher.counters.retries >= 1


def test_a_header_may_be_a_credential(service: HttpService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMES_TOKEN", "Bearer s3cr3t-token")
    source = source_of(service, headers={"Authorization": env("NAMES_TOKEN")})
    assert fetch(source, ids(1))[0] == ROWS[1:2]
    assert service.requests[0][1]["Authorization"] == "Bearer s3cr3t-token"

    def fault(handler: Any, number: int) -> bool:
        service.answer(handler, f"unknown {handler.headers['Authorization']}".encode(), 403)
        return True

    service.fault = fault
    said = failure(source)
    assert "status 403 Forbidden: unknown" in said
    for seen in (said, repr(source), repr(pickle.dumps(source))):
        assert "s3cr3t" not in seen


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HttpSource("ftp://x/y", schema=SCHEMA, keys=("id",)), "begins with http:// or https://"),
        (lambda: HttpSource("http://me:pw@x/y", schema=SCHEMA, keys=("id",)), "user or password"),
        (lambda: HttpSource("http://me:p/pw@x/y", schema=SCHEMA, keys=("id",)), "has a host, and perhaps a port"),
        (lambda: HttpSource("http://me:1/pw@x/y", schema=SCHEMA, keys=("id",)), "user or password"),
        (lambda: HttpSource("http://me:1#pw@x/y", schema=SCHEMA, keys=("id",)), "user or password"),
        (lambda: HttpSource("http://x/y", schema=SCHEMA, keys=("nr",)), "no column nr; columns: id, name"),
        (
            lambda: HttpSource("http://x/y", schema=SCHEMA, keys=("id", "name"), parameter="ids"),
            "a GET takes one key column",
        ),
        (lambda: HttpSource("http://x/y", schema="id INT", keys=("id",)), "schema is 'id INT'; give a pyarrow.Schema"),
        (lambda: HttpSource("http://x/y", schema=SCHEMA, keys="id"), r"keys is 'id', .*; write keys=\['id'\]"),
        (lambda: HttpSource("http://x/y", schema={"id": "INT"}, keys=("id",)), "give a pyarrow.Schema"),
    ],
)
def test_a_wrong_description_is_refused(make: Callable[[], HttpSource], message: str) -> None:
    with pytest.raises(SourceError, match=message) as refused:
        make()
    assert "pw" not in str(refused.value)
