"""HTTP servers that never answer, drip, flood or lie: a call that is given up frees its thread, socket and memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import http.client
import itertools
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dovetail.executor.connectors.fetch import Fetcher
from dovetail.executor.connectors.http import HttpSource
from dovetail.executor.connectors.http_connection import HttpConnection
from dovetail.planner.errors import LookupFailed, SourceError
from dovetail.planner.logical.lookup_spec import LookupSpec
from servers import HttpService
from waiting import DEADLINE, until

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
BLOCK = b"[" + b" " * 2**16
MB = 2**20

Behavior = Callable[[socket.socket], None]


class RawServer:
    """A server that does with each connection what it is told."""

    def __init__(self, behave: Behavior) -> None:
        self._behave = behave
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._taken: set[socket.socket] = set()
        self.accepted = 0
        threading.Thread(target=self._serve, daemon=True, name="raw server").start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/lookup"

    @property
    def clients(self) -> list[str]:
        """Sockets to this server that a process holds, as the kernel lists them: one that is closed has no inode."""
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return [" ".join(line) for line in lines if line[2].endswith(f":{self.port:04X}") and line[9] != "0"]

    def stop(self) -> None:
        self._listener.close()
        for connection in list(self._taken):
            connection.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.accepted += 1
                self._taken.add(connection)
                threading.Thread(target=self._handle, args=(connection,), daemon=True, name="raw server").start()

    def _handle(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError):
                connection.recv(2**16)
                self._behave(connection)
                while connection.recv(2**16):  # until the other end closes it
                    pass
        finally:
            self._taken.discard(connection)
            connection.close()


def head(version: str, *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/{version} 200 OK", *lines, "", ""]).encode()


def sends(*parts: bytes, forever: bytes = b"", pause: float = 0.0) -> Behavior:
    def behave(connection: socket.socket) -> None:
        for part in parts:
            connection.sendall(part)
        while forever:
            connection.sendall(forever)
            time.sleep(pause)

    return behave


CHUNKED = head("1.1", "Transfer-Encoding: chunked")
CLOSE = head("1.1", "Connection: close")
OLD = head("1.0")
LONG = head("1.1", "Content-Length: 99999999999")
CHUNK = b"10000\r\n" + b" " * 2**16 + b"\r\n"
FLOODS = {
    "chunks": sends(CHUNKED, forever=CHUNK),
    "one chunk": sends(CHUNKED + b"ffffffffffff\r\n", forever=BLOCK),
    "HTTP/1.0": sends(OLD, forever=BLOCK),
    "Connection: close": sends(CLOSE, forever=BLOCK),
    "Content-Length": sends(LONG, forever=BLOCK),
    "an error": sends(b"HTTP/1.1 500 no\r\nConnection: close\r\n\r\n", forever=BLOCK),
}
HANGS = {
    "nothing": sends(),
    "half a status": sends(b"HTTP/1.1 2"),
    "half a header": sends(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "only headers, HTTP/1.0": sends(OLD),
    "only headers, Connection: close": sends(CLOSE),
    "only headers, chunked": sends(CHUNKED),
    "only headers, Content-Length": sends(head("1.1", "Content-Length: 9")),
    "drips, HTTP/1.0": sends(OLD, forever=b" ", pause=0.05),
    "drips, Connection: close": sends(CLOSE, forever=b" ", pause=0.05),
    "drips, chunked": sends(CHUNKED, forever=b"1\r\n \r\n", pause=0.05),
    "drips, Content-Length": sends(head("1.1", "Content-Length: 999"), forever=b" ", pause=0.05),
    "drips an error": sends(b"HTTP/1.1 500 no\r\n\r\n", forever=b" ", pause=0.05),
    "endless continuation": sends(forever=b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.001),
    "endless trailers": sends(CHUNKED + b"0\r\n", forever=b"a: b\r\n", pause=0.001),
}


class Mallinfo(ctypes.Structure):
    """``struct mallinfo2`` of glibc's ``malloc.h``."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks")
    ] + [("keepcost", ctypes.c_size_t)]


def in_use() -> int:
    """Bytes that this process has allocated and not freed.

    Not what it has resident: glibc keeps up to 64 MB of what another thread freed, by what was freed before.
    """
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    found = mallinfo()
    return int(found.uordblks + found.hblkhd)


errors: list[BaseException] = []


def lookup_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("lookup ")]


def failure(url: str, *, timeout: float = DEADLINE, attempts: int = 1, **more: Any) -> str:
    """What a lookup says, seen to leave no thread behind."""
    source = HttpSource(url, schema=SCHEMA, keys=("id",), **more)
    spec = LookupSpec("Names", ("id",), ("id", "name"), delay=0.01, timeout=timeout, attempts=attempts)
    fetcher = Fetcher(source, spec, SCHEMA)
    try:
        with pytest.raises(LookupFailed) as failed:
            list(fetcher.answers([pa.table({"id": pa.array([1], pa.int64())})]))
    finally:
        fetcher.close()
    assert until(lambda: not lookup_threads()), "the thread of the call lives on"
    errors.append(failed.value)  # an error that lives on holds nothing
    return str(failed.value)


@pytest.fixture
def serve() -> Iterator[Callable[[Behavior], RawServer]]:
    servers: list[RawServer] = []

    def start(behave: Behavior) -> RawServer:
        servers.append(RawServer(behave))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_ends_at_the_limit(serve: Callable[[Behavior], RawServer], kind: str) -> None:
    server = serve(FLOODS[kind])
    failure(server.url, max_bytes=4 * MB)  # what is there after the first time stays
    before = in_use()
    said = failure(server.url, max_bytes=4 * MB)
    assert in_use() - before < 16 * MB
    assert ("status 500" if kind == "an error" else "an answer has more than 4,194,304 bytes; set max_bytes") in said
    assert until(lambda: not server.clients), f"the socket is open: {server.clients}"
    assert server.accepted == 2 or kind == "an error"


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_without_a_limit_is_given_up(serve: Callable[[Behavior], RawServer], kind: str) -> None:
    server = serve(FLOODS[kind])
    failure(server.url, max_bytes=MB)
    before = in_use()
    said = failure(server.url, timeout=0.3, max_bytes=10**12)
    assert "no answer within 0.3 seconds" in said or "status 500" in said
    assert until(lambda: not server.clients), f"the socket is open: {server.clients}"
    assert until(lambda: in_use() - before < 16 * MB), "what was read is held"


@pytest.mark.parametrize("kind", HANGS)
def test_a_call_that_hangs_is_given_up(serve: Callable[[Behavior], RawServer], kind: str) -> None:
    server = serve(HANGS[kind])
    said = failure(server.url, timeout=0.1, attempts=2)  # which hangs itself if the calls do
    assert "2 attempts; no answer within 0.1 seconds" in said
    assert until(lambda: not server.clients), f"the socket is open: {server.clients}"
    assert server.accepted <= 2, "a call that was given up asked once more"


def test_calls_side_by_side_end_when_the_fetch_is_closed(serve: Callable[[Behavior], RawServer]) -> None:
    server = serve(sends())
    source = HttpSource(server.url, schema=SCHEMA, keys=("id",))
    spec = LookupSpec("Names", ("id",), ("id", "name"), batch=1, timeout=10 * DEADLINE, attempts=1, asynchronous=True)
    fetcher = Fetcher(source, spec, SCHEMA)
    answers = fetcher.answers([pa.table({"id": pa.array(range(4), pa.int64())})])

    def ask() -> None:
        with contextlib.suppress(LookupFailed):
            next(answers)

    threading.Thread(target=ask, daemon=True).start()
    assert until(lambda: server.accepted == 4)
    fetcher.close()
    assert until(lambda: not lookup_threads()), "the thread of a call lives on"
    assert until(lambda: not server.clients), f"a socket is open: {server.clients}"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n", "got more than 100 headers"),
        (b"HTTP/1.1 200 OK\r\na: " + b"b" * 10**6, "header line"),
        (b"HTTP/1.1 " + b"2" * 10**6, "status line"),
        (head("1.1", "Content-Length: 100", "Connection: close") + b"[]", "IncompleteRead"),
        (CHUNKED + b"5\r\n[]", "IncompleteRead"),
        (CHUNKED + b"x\r\n[]", "IncompleteRead"),
        (head("1.1", "Content-Encoding: gzip", "Content-Length: 2") + b"[]", "the answer is compressed (gzip)"),
    ],
)
def test_a_broken_answer_is_an_error(serve: Callable[[Behavior], RawServer], answer: bytes, reason: str) -> None:
    def behave(connection: socket.socket) -> None:
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)

    server = serve(behave)
    assert reason in failure(server.url)
    assert until(lambda: not server.clients)


def test_a_handshake_that_hangs_is_given_up(serve: Callable[[Behavior], RawServer]) -> None:
    server = serve(sends())
    said = failure(server.url.replace("http:", "https:"), timeout=0.2)
    assert "no answer within 0.2 seconds" in said
    assert until(lambda: not server.clients), f"the socket is open: {server.clients}"


def test_tls_to_a_server_that_is_known_and_one_that_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key))
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    service = HttpService([{"id": 1, "name": "x"}], context)
    url = service.url.replace("http://127.0.0.1", "https://localhost")
    try:
        assert "CERTIFICATE_VERIFY_FAILED" in failure(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        source = HttpSource(url, schema=SCHEMA, keys=("id",))
        source.open()
        for _ in range(2):
            assert source.fetch(pa.table({"id": pa.array([1], pa.int64())})).to_pylist() == [{"id": 1, "name": "x"}]
        assert len(service.requests) == 2
        source.close()
        assert "CERTIFICATE_VERIFY_FAILED" in failure(url.replace("localhost", "127.0.0.1"))
    finally:
        service.stop()


def test_a_connect_that_hangs_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as held:
        for _ in range(8):  # until no more are taken
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        said = failure(f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout=0.2)
    assert "no answer within 0.2 seconds" in said


def test_cancel_at_any_moment(serve: Callable[[Behavior], RawServer]) -> None:
    server = serve(sends(OLD, forever=b" ", pause=0.001))
    for pause in itertools.chain([-1.0], (n / 2000 for n in range(30))):
        connection = HttpConnection("127.0.0.1", server.port, 10 * DEADLINE, encrypted=False, limit=MB)
        ended = threading.Event()

        def ask(connection: HttpConnection = connection, ended: threading.Event = ended) -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection.exchange("GET", "/", None, {})
            connection.end()
            ended.set()

        if pause < 0:
            connection.cancel()
        threading.Thread(target=ask, daemon=True).start()
        time.sleep(max(pause, 0))
        connection.cancel()
        assert ended.wait(DEADLINE), f"not ended when canceled after {pause} s"
    assert until(lambda: not server.clients)


def test_an_answer_of_just_the_limit_is_taken(serve: Callable[[Behavior], RawServer]) -> None:
    body = b'[{"id": 1, "name": "x"}]'
    for kind in (head("1.1", f"Content-Length: {len(body)}"), CLOSE, OLD):
        server = serve(sends_once(kind + body))
        for limit in (len(body), len(body) - 1):
            source = HttpSource(server.url, schema=SCHEMA, keys=("id",), max_bytes=limit)
            source.open()
            keys = pa.table({"id": pa.array([1], pa.int64())})
            if limit == len(body):
                assert source.fetch(keys).to_pylist() == [{"id": 1, "name": "x"}]
            else:
                with pytest.raises(SourceError, match="more than 23 bytes"):
                    source.fetch(keys)
            source.close()


def sends_once(answer: bytes) -> Behavior:
    def behave(connection: socket.socket) -> None:
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)

    return behave
