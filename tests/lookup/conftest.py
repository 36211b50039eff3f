"""One PostgreSQL server for all lookup tests, in a directory of its own; it starts in about a second."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dovetail import Optimizer
    from servers import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The connection string of a server that no test stops."""
    from servers import PostgresServer

    with PostgresServer() as server:
        os.environ["DOVETAIL_TEST_POSTGRES"] = server.uri
        yield server.uri


@pytest.fixture
def sql(postgres: str) -> Callable[[str], object]:
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


@pytest.fixture(scope="module")
def opt(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Optimizer:
    """An optimizer with the lookups ``names``, in memory, and ``files``, of the same two rows."""
    from dovetail import Optimizer
    from dovetail.executor.connectors.memory import MemorySource
    from dovetail.executor.connectors.spark_table import SparkTable
    from sessions import for_few_rows

    session = for_few_rows(spark)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    folder = str(tmp_path_factory.mktemp("names") / "names")
    rows = session.createDataFrame([(0, 1, "a"), (1, 2, "b")], "id BIGINT, kind TINYINT, name STRING")
    rows.write.parquet(folder)
    found = Optimizer(session)
    found.register_lookup("names", MemorySource(rows.toArrow()))
    found.register_lookup("files", SparkTable(path=folder))
    return found
