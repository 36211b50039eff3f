"""Sail, a server of Spark Connect without a JVM: one in this process, and what a server of it reads otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException

from dovetail.executor.session.batch import connect_query
from dovetail.planner.errors import EnvironmentProblem

_REMEDY = "pip install pysail 'pyspark-client<4.2', in an environment without another PySpark"

# Spark gives the column of a union the type of all its queries.
_UNTYPED = "(SELECT NULL AS r UNION ALL SELECT named_struct('c', 1) AS r) AS u"
_found: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def note_application(session: Any) -> None:
    """Note that a server has the id of a Spark application, so that it is not Sail."""
    _found.setdefault(session, False)


def is_sail(session: Any) -> bool:
    """Whether a server is Sail: it finds no field of a row that is NULL in the first query of a union.

    The query is analyzed once for each session, unless the settings have shown the id of a Spark application.  Raises
    what Spark raises where the server does not answer.
    """
    if session not in _found:
        try:
            _ = connect_query(session, f"SELECT v.c FROM {_UNTYPED} JOIN LATERAL (SELECT u.r.c AS c) AS v").schema
            _found[session] = False
        except AnalysisException:
            _found[session] = True
    return _found[session]


def is_installed() -> bool:
    """Whether this Python has Sail."""
    return find_spec("pysail") is not None


@contextmanager
def sail_server() -> Iterator[str]:
    """Start a server, stop it at the end; returns its address, ``sc://127.0.0.1:PORT``.

    Raises ``EnvironmentProblem`` where Sail is not installed, or does not start.
    """
    if not is_installed():
        raise EnvironmentProblem("Sail is not installed", remedy=_REMEDY)
    os.environ.setdefault("RUST_LOG", "off")  # it logs each start and end
    try:
        from pysail.spark import SparkConnectServer  # type: ignore[import-not-found]

        server = SparkConnectServer("127.0.0.1", 0)
        server.start(background=True)
    except Exception as error:
        raise EnvironmentProblem(f"Sail did not start: {error}", remedy=_REMEDY) from error
    try:
        host, port = server.listening_address
        yield f"sc://{host}:{port}"
    finally:
        server.stop()
