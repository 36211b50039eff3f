"""Servers that hang: no connect waits for another, and each call has a timeout."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import adbc_driver_postgresql.dbapi as dbapi
import pytest

from dovetail.executor.connectors import postgres_connection
from dovetail.executor.connectors.credentials import env
from dovetail.executor.connectors.postgres import PostgresSource
from dovetail.planner.errors import SourceError
from lookup_ways import keyed
from servers import PostgresServer, execute
from waiting import DEADLINE, until

PARENT = "CREATE TABLE {} (id int PRIMARY KEY)"
URI = env("DOVETAIL_TEST_POSTGRES")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server that takes connections and never answers; each of them ends with an error when it is closed."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=20)) as server:
        yield server


@pytest.fixture
def silent(listener: socket.socket) -> str:
    """The connect string of that server, without a timeout."""
    return f"host=127.0.0.1 port={listener.getsockname()[1]} user=me dbname=d"


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("lookup PostgreSQL")]


def test_no_connect_waits_for_one_that_hangs(postgres: str, listener: socket.socket, silent: str) -> None:
    execute(postgres, "CREATE TABLE IF NOT EXISTS reachable (id int)")
    hung = PostgresSource("t", uri=silent + " connect_timeout=3600", timeout=3600)
    failed: list[BaseException] = []

    def describe() -> None:
        try:
            hung.schema()
        except SourceError as error:
            failed.append(error)

    waiting = threading.Thread(target=describe)
    waiting.start()
    assert until(threads)
    assert PostgresSource("reachable", uri=URI, timeout=DEADLINE).schema().names == ["id"]
    assert waiting.is_alive()
    listener.close()
    waiting.join(DEADLINE)
    assert isinstance(failed[0], ConnectionError)
    assert until(lambda: not threads())


def test_the_timeout_of_a_connect_string_counts(silent: str) -> None:
    with pytest.raises(ConnectionError, match="timeout expired"):
        PostgresSource("t", uri=silent + " connect_timeout=2", timeout=DEADLINE).schema()
    assert until(lambda: not threads())


def test_a_connect_string_without_a_timeout_gets_one(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_connection, "CONNECT_SECONDS", 2)
    source = PostgresSource("t", uri=silent, timeout=0.3)
    with pytest.raises(SourceError, match=r"PostgreSQL table t: no answer within 0\.3 s; check that it is up"):
        source.schema()
    assert until(lambda: not threads())  # with its own timeout; without one the thread would wait as long as the server


def test_describing_a_table_has_a_timeout_and_is_cancelled(postgres: str) -> None:
    execute(postgres, "CREATE TABLE IF NOT EXISTS locked (id int)")
    source = PostgresSource("locked", uri=URI, timeout=0.5)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with closing(dbapi.connect(postgres)) as holder, closing(holder.cursor()) as cursor:
        cursor.execute("LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")
        for call in (source.schema, lambda: source.unique_keys):
            with pytest.raises(SourceError, match=r"no answer within 0\.5 s"):
                call()
        assert until(lambda: execute(postgres, waiting) == [(0,)])  # while the lock is still held
        holder.rollback()
    let_go = PostgresSource("locked", uri=URI, timeout=DEADLINE)
    assert let_go.schema().names == ["id"]
    assert let_go.rows() is not None


def test_a_frozen_server_does_not_hold_up_planning(mortal: PostgresServer) -> None:
    execute(mortal.uri, "CREATE TABLE IF NOT EXISTS cold (id int)")
    source = PostgresSource("cold", uri=mortal.uri, timeout=2)
    source.schema()
    mortal.freeze(on=True)
    try:
        assert source.rows() is None
        with pytest.raises(SourceError, match="no answer"):
            PostgresSource("cold", uri=mortal.uri, timeout=0.5).schema()
    finally:
        mortal.freeze(on=False)
    assert until(lambda: source.rows() is not None)
    assert until(lambda: not threads())


def test_a_callable_with_changing_tokens_leaves_one_database(mortal: PostgresServer) -> None:
    execute(mortal.uri, "CREATE TABLE IF NOT EXISTS tokens AS SELECT 1 AS id")
    before = len(postgres_connection._databases)
    tokens = iter(range(100))
    source = PostgresSource("tokens", uri=lambda: f"{mortal.uri}&password=token{next(tokens)}")
    import pyarrow as pa

    for _ in range(12):
        assert keyed(source, "id", pa.array([1], pa.int32())).num_rows == 1
    known = list(postgres_connection._databases.items())
    assert len(known) <= min(before + 1, postgres_connection._SERVERS)
    assert "token" not in "".join(server for server, _ in known)
    gc.collect()
    live = [o for o in gc.get_objects() if isinstance(o, postgres_connection._Database)]
    assert len(live) <= postgres_connection._SERVERS + 1


@pytest.mark.parametrize(
    ("statements", "unique"),
    [
        (f"{PARENT}; CREATE TABLE {{}}_child () INHERITS ({{}})", ()),
        (
            f"{PARENT} PARTITION BY RANGE (id); CREATE TABLE {{}}_child PARTITION OF {{}} FOR VALUES FROM (0) TO (9)",
            (("id",),),
        ),
    ],
)
def test_an_index_of_a_parent_is_unique_only_in_partitions(
    postgres: str, statements: str, unique: tuple[tuple[str, ...], ...]
) -> None:
    import pyarrow as pa

    execute(postgres, "DROP TABLE IF EXISTS parent CASCADE")
    for statement in statements.format("parent", "parent", "parent").split("; "):
        execute(postgres, statement)
    source = PostgresSource("parent", uri=URI)
    assert source.unique_keys == unique
    if not unique:
        execute(postgres, "INSERT INTO parent VALUES (1)")
        execute(postgres, "INSERT INTO parent_child VALUES (1)")
        assert keyed(source, "id", pa.array([1, 2], pa.int32())).num_rows == 2
