"""One local Spark Connect server at a time: PySpark starts each at the same port, and its client looks nowhere else."""

from __future__ import annotations

import fcntl
import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

PORT = 15002


@contextmanager
def connect_port() -> Iterator[None]:
    """Hold the port of local Connect servers against the other workers; the server of the last one may still end."""
    with Path(tempfile.gettempdir(), f"dovetail-tests-port-{PORT}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wait_for_port()
        yield


def wait_for_port() -> None:
    """Wait until no server listens at the port."""

    def is_free() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", PORT)) != 0

    assert until(is_free), f"another server listens at port {PORT}"
