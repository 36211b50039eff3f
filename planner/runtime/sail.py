"""A server of Sail in this process: Spark Connect without a JVM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from planner.errors import EnvironmentProblem

_REMEDY = "pip install 'dovetail[sail]', in an environment without another PySpark"


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
