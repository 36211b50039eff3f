"""An HTTP connection that another thread can cancel, with a limit on the size of answers.

``http.client`` gives up its socket to the response in HTTP/1.0 and with ``Connection: close``.  This class keeps a
reference to the socket from its creation to its end, during the connect and the TLS handshake too.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from dataclasses import dataclass

_CHUNK = 2**16  # bytes per read
_ERROR = 2**12  # bytes that are read of an error


class AnswerTooLarge(Exception):
    """An answer larger than the limit."""


@dataclass(frozen=True)
class HttpAnswer:
    """An answer: ``body`` is complete if the status is 200, and truncated otherwise."""

    status: int
    reason: str
    body: bytes
    encoding: str


class HttpConnection(http.client.HTTPConnection):
    """A connection to one server; ``patience``: the timeout in seconds of a connect and of each read."""

    def __init__(self, host: str, port: int | None, patience: float, *, encrypted: bool, limit: int) -> None:
        self.default_port = http.client.HTTPS_PORT if encrypted else http.client.HTTP_PORT
        super().__init__(host, port, timeout=patience)
        self._patience = patience
        self._encrypted = encrypted
        self._limit = limit
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._cancelled = False

    def connect(self) -> None:
        """Connect to the first address of the host that answers."""
        failed: OSError | None = None
        for family, kind, protocol, _, address in socket.getaddrinfo(self.host, self.port, 0, socket.SOCK_STREAM):
            try:
                self._connect(socket.socket(family, kind, protocol), address)
            except OSError as error:
                failed = error
                self._forget()
            else:
                return
        raise failed or OSError(f"{self.host} has no address")

    def _connect(self, made: socket.socket, address: tuple[object, ...]) -> None:
        self._remember(made)
        made.settimeout(self._patience)
        made.connect(address)
        self._check()  # a socket that was shut down before the connect still connects
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._encrypted:
            made = _context().wrap_socket(made, server_hostname=self.host, do_handshake_on_connect=False)
            self._remember(made)
            made.do_handshake()
        self.sock = made

    def exchange(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> HttpAnswer:
        """Send a request and read its answer.  Raises ``AnswerTooLarge``, ``OSError``, ``HTTPException``."""
        self.request(method, target, body, headers)
        with contextlib.closing(self.getresponse()) as response:
            answer = self._read(response)
            if not response.isclosed():
                self.end()  # the rest of a long error is not read
        return answer

    def _read(self, response: http.client.HTTPResponse) -> HttpAnswer:
        is_success = response.status == http.client.OK
        wanted = self._limit if is_success else _ERROR
        if is_success and response.length is not None and response.length > wanted:
            raise AnswerTooLarge
        body = bytearray()
        while len(body) <= wanted and (part := response.read(min(_CHUNK, wanted + 1 - len(body)))):
            body += part
            self._check()
        if is_success and len(body) > wanted:
            raise AnswerTooLarge
        if is_success and response.length:  # http.client does not check this for partial reads
            raise http.client.IncompleteRead(b"", response.length)
        encoding = (response.getheader("Content-Encoding") or "identity").strip().lower()
        return HttpAnswer(response.status, response.reason, bytes(body), encoding)

    def cancel(self) -> None:
        """Abort the current call, from any thread; later calls fail."""
        with self._lock:
            self._cancelled = True
            held = self._socket
        if held is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(held, socket.SHUT_RDWR)  # TLS: its shutdown disturbs the reader

    def end(self) -> None:
        """Close the socket, even if ``close``, which ``http.client`` calls itself, has passed it to a response."""
        try:
            self.close()
        finally:
            self._forget()

    def _remember(self, made: socket.socket) -> None:
        with self._lock:
            self._socket = made
        self._check()

    def _check(self) -> None:
        with self._lock:
            if self._cancelled:
                raise ConnectionAbortedError("the call was canceled")

    def _forget(self) -> None:
        with self._lock:
            held, self._socket = self._socket, None
        if held is not None and (number := held.detach()) >= 0:
            socket.close(number)  # a response, or an error that holds it, would keep a closed socket open


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
