"""A PostgreSQL server that is killed, frozen and started again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from dovetail.executor.connectors.fetch import Fetcher
from dovetail.executor.connectors.postgres import PostgresSource
from dovetail.planner.errors import LookupFailed
from dovetail.planner.logical.lookup_spec import LookupSpec
from servers import PostgresServer, execute
from waiting import until


@pytest.fixture
def source(mortal: PostgresServer) -> PostgresSource:
    execute(mortal.uri, "DROP TABLE IF EXISTS t")
    execute(mortal.uri, "CREATE TABLE t AS SELECT n::bigint AS id, 'n' || n AS name FROM generate_series(1, 1000) AS n")
    found = PostgresSource("t", uri=mortal.uri)
    found.schema()
    return found


def fetcher_of(source: PostgresSource, **more: Any) -> Fetcher:
    given: dict[str, Any] = {"batch": 10, "delay": 0.1, "attempts": 3, **more}
    return Fetcher(source, LookupSpec("T", ("id",), ("id", "name"), **given), source.schema())


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def test_down_at_the_start(mortal: PostgresServer, source: PostgresSource) -> None:
    mortal.kill()
    fetcher = fetcher_of(source)
    with pytest.raises(LookupFailed) as failed:
        list(fetcher.answers([ids(*range(5))]))
    fetcher.close()
    said = str(failed.value)
    assert said.startswith(
        "lookup in T (PostgreSQL table t) failed for 5 keys, id = 0, 1, 2, …; 3 attempts; Connection"
    )
    assert fetcher.counters.rows == 0


def test_killed_midway_and_back_within_the_attempts(mortal: PostgresServer, source: PostgresSource) -> None:
    fetcher = fetcher_of(source, attempts=2000)
    back = threading.Timer(1.0, mortal.start)

    def keys() -> Iterator[pa.Table]:
        yield ids(*range(1, 31))
        mortal.kill()
        back.start()
        yield ids(*range(31, 61))

    rows = [row["id"] for answer in fetcher.answers(keys()) for row in answer.rows.to_pylist()]
    fetcher.close()
    back.join()
    assert rows == list(range(1, 61))
    assert fetcher.counters.retries >= 1
    assert fetcher.counters.keys == 60


def test_killed_midway_and_not_back(mortal: PostgresServer, source: PostgresSource) -> None:
    fetcher = fetcher_of(source)

    def keys() -> Iterator[pa.Table]:
        yield ids(*range(1, 31))
        mortal.kill()
        yield ids(*range(31, 61))

    done = []
    with pytest.raises(LookupFailed, match="failed for 10 keys, id = 31, 32, 33, …; 3 attempts"):
        done += list(fetcher.answers(keys()))
    fetcher.close()


def test_frozen_and_let_go_on(mortal: PostgresServer, source: PostgresSource) -> None:
    fetcher = fetcher_of(source, timeout=0.5, attempts=200)

    def thaw_after_a_retry() -> None:
        assert until(lambda: fetcher.counters.retries)
        mortal.freeze(on=False)

    thaw = threading.Thread(target=thaw_after_a_retry)

    def keys() -> Iterator[pa.Table]:
        yield ids(*range(1, 11))
        mortal.freeze(on=True)
        thaw.start()
        yield ids(*range(11, 21))

    rows = [row["id"] for answer in fetcher.answers(keys()) for row in answer.rows.to_pylist()]
    thaw.join()
    fetcher.close()
    assert rows == list(range(1, 21))
    assert fetcher.counters.retries >= 1


def test_a_query_that_is_too_slow_is_cancelled_on_the_server(mortal: PostgresServer) -> None:
    source = PostgresSource(query="SELECT 1::bigint AS id, pg_sleep(600)::text AS name", uri=mortal.uri)
    fetcher = fetcher_of(source, timeout=0.5, attempts=1)
    with pytest.raises(LookupFailed, match=r"id = 1; 1 attempt; no answer within 0.5 seconds"):
        list(fetcher.answers([ids(1)]))
    fetcher.close()
    running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sl' || 'eep%' AND state = 'active'"
    assert until(lambda: execute(mortal.uri, running) == [(0,)])


def test_connections_are_closed(mortal: PostgresServer, source: PostgresSource) -> None:
    fetcher = fetcher_of(source, asynchronous=True)
    answers = fetcher.answers([ids(*range(200))])
    next(answers)
    ours = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    assert execute(mortal.uri, ours)[0][0] >= 1
    fetcher.close()
    assert until(lambda: execute(mortal.uri, ours) == [(0,)])
