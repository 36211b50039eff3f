"""One PostgreSQL server for all lookup tests, in a directory of its own; it starts in about a second."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from servers import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The connection string of a server that no test stops."""
    from servers import PostgresServer

    with PostgresServer() as server:
        os.environ["DOVETAIL_TEST_POSTGRES"] = server.uri
        yield server.uri


@pytest.fixture
def sql(postgres: str) -> Callable[[str], None]:
    """Run statements on that server."""
    from servers import execute

    return lambda text: execute(postgres, text)


@pytest.fixture(scope="session")
def another() -> Iterator[PostgresServer]:
    from servers import PostgresServer

    with PostgresServer() as server:
        yield server


@pytest.fixture
def mortal(another: PostgresServer) -> Iterator[PostgresServer]:
    """A server that a test may kill, freeze and start again."""
    another.start()
    yield another
    another.start()
