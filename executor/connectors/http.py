"""Source for an HTTP service that takes a batch of keys and answers in JSON.

    HttpSource("https://rates.example/lookup", schema=pa.schema(...), keys=("currency", "day"))

    POST {"keys": [{"currency": "EUR", "day": "2026-01-31"}, …]}
    200  [{"currency": "EUR", "day": "2026-01-31", "rate": 1.08}, …]

The client is the standard library's, so workers need no package.  It keeps one connection open and follows no redirect,
so no credential goes to another host.  ``json_values.py`` defines the JSON forms of values.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urlsplit

from dovetail.executor.connectors import json_values
from dovetail.executor.connectors.answer import WrongAnswer
from dovetail.executor.connectors.credentials import Credential, read, redact
from dovetail.executor.connectors.http_connection import AnswerTooLarge, HttpAnswer, HttpConnection
from dovetail.executor.connectors.source import LookupSource
from dovetail.planner.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

_CONNECT = 30.0  # seconds for a connection, and between two parts of an answer
_MAX_SHOWN = 200  # characters of an error's body in a message
MAX_BYTES = 64 * 2**20
"""The default limit of one answer."""


class HttpSource(LookupSource):
    """A JSON endpoint.

    ``schema``: the columns, a ``pyarrow.Schema``.  ``keys``: the columns of the key.
    A POST sends ``{"keys": [{…}, …]}``, or plain values if there is one column.
    With ``parameter`` the request is a GET of one column: ``?ids=1,2,3``.  ``rows`` names the member of the answer that
    holds the rows, if the answer is not a list itself.  ``headers`` may be credentials:
    ``{"Authorization": env("RATES_TOKEN")}``.

    In JSON, dates are ISO strings, decimals are numbers or strings, and bytes are base64.  A missing member is NULL; a
    member that all objects lack is an error.  An answer of more than ``max_bytes`` is an error and is not read further.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: pa.Schema,
        keys: Sequence[str],
        parameter: str | None = None,
        rows: str | None = None,
        headers: Mapping[str, Credential | str] | None = None,
        unique_keys: Sequence[Sequence[str]] = (),
        max_bytes: int = MAX_BYTES,
    ) -> None:
        parts = _split(url)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise SourceError("the url of a lookup begins with http:// or https:// and has a host, and perhaps a port")
        if "@" in parts.netloc + parts.path + parts.fragment:  # a password may have a / or # in it
            raise SourceError("the url has a user or password in it; send it as a header: headers={…: env(…)}")
        if not hasattr(schema, "names") or not hasattr(schema, "field"):
            raise SourceError(
                f"schema is {schema!r}; give a pyarrow.Schema, as "
                "pa.schema([('currency', pa.string()), ('rate', pa.float64())])"
            )
        if isinstance(keys, str):
            raise SourceError(f"keys is {keys!r}, and not a list of columns; write keys=[{keys!r}]")
        if lacking := [key for key in keys if key not in schema.names]:
            raise SourceError(f"the schema has no column {lacking[0]}; columns: {', '.join(schema.names)}")
        if parameter is not None and len(keys) != 1:
            raise SourceError("a GET takes one key column; leave parameter out to POST several")
        if unknown := [field for field in schema if not json_values.is_known(field.type)]:
            raise SourceError(f"the column {unknown[0].name} is {unknown[0].type}, which is not read from JSON")
        if max_bytes < 1:
            raise SourceError(f"max_bytes is {max_bytes}; give a number above zero")
        self._max_bytes = max_bytes
        self._url = url
        self._schema = schema
        self._keys = tuple(keys)
        self._parameter = parameter
        self._rows = rows
        self._headers = dict(headers or {})
        self.unique_keys = tuple(tuple(columns) for columns in unique_keys)
        self.fetch_keys = (self._keys,)
        self._connection: HttpConnection | None = None
        self._cancelled = False
        self._read: dict[str, str] = {}

    def schema(self) -> pa.Schema:
        return self._schema

    def fetch(self, keys: pa.Table) -> pa.Table:
        columns = [json_values.plain_values(keys.column(name)) for name in keys.column_names]
        rows = [dict(zip(keys.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
        answer = self._answer(rows)
        if answer.status != http.client.OK:
            text = " ".join(answer.body[:_MAX_SHOWN].decode(errors="replace").split())
            raise ConnectionError(f"status {answer.status} {answer.reason}{': ' if text else ''}{text}")
        if answer.encoding != "identity":
            raise WrongAnswer(f"the answer is compressed ({answer.encoding[:20]}), which was not requested")
        return self._table(json_values.parse(answer.body))

    def open(self) -> None:
        self._read = {name: read(value, f"the header {name} of {self!r}") for name, value in self._headers.items()}

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.end()

    def cancel(self) -> None:
        self._cancelled = True
        connection = self._connection
        if connection is not None:
            connection.cancel()

    def redact(self, text: str) -> str:
        hidden = [*self._read.values(), urlsplit(self._url).query]
        return redact(text, [*hidden, *(word for value in hidden for word in value.split() if len(word) > 6)])

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_connection": None, "_read": {}, "_cancelled": False}

    def __repr__(self) -> str:
        parts = urlsplit(self._url)
        return f"HTTP service {parts.scheme}://{parts.netloc}{parts.path}"

    def _answer(self, keys: list[dict[str, Any]]) -> HttpAnswer:
        """Send one request and return its answer."""
        parts = urlsplit(self._url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", **self._read}
        values = [key[self._keys[0]] for key in keys] if len(self._keys) == 1 else keys
        if self._parameter is not None:
            listed = ",".join(quote(_query_value(value), safe="") for value in values)
            target += f"{'&' if parts.query else '?'}{quote(self._parameter)}={listed}"
            return self._exchange("GET", target, None, headers)
        headers["Content-Type"] = "application/json"
        return self._exchange("POST", target, json.dumps({"keys": values}, allow_nan=False).encode(), headers)

    def _exchange(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> HttpAnswer:
        """Send over the open connection, or over a new one if the server has closed it."""
        try:
            if self._connection is not None:
                try:
                    return self._connection.exchange(method, target, body, headers)
                except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                    self.close()
            return self._open_connection().exchange(method, target, body, headers)
        except AnswerTooLarge:
            self.close()
            raise SourceError(
                f"an answer has more than {self._max_bytes:,} bytes; set max_bytes, or request fewer keys at once: "
                f"LOOKUP('table'=…, 'batch'=…)"
            ) from None

    def _open_connection(self) -> HttpConnection:
        parts = urlsplit(self._url)
        encrypted = parts.scheme == "https"
        made = HttpConnection(parts.hostname or "", parts.port, _CONNECT, encrypted=encrypted, limit=self._max_bytes)
        self._connection = made
        if self._cancelled:  # canceled before there was a connection
            made.cancel()
        return made

    def _table(self, answer: Any) -> pa.Table:
        import pyarrow as pa

        if self._rows is not None:
            answer = answer.get(self._rows) if isinstance(answer, dict) else None
        if not isinstance(answer, list) or not all(isinstance(row, dict) for row in answer):
            where = f"the member {self._rows} of the answer" if self._rows else "the answer"
            raise WrongAnswer(f"{where} is not a list of objects")
        columns = []
        for field in self._schema:
            if answer and not any(field.name in row for row in answer):
                found = ", ".join(answer[0])[:_MAX_SHOWN] or "none"
                raise WrongAnswer(f"the column {field.name} did not come back; columns: {found}")
            columns.append(json_values.array([row.get(field.name) for row in answer], field))
        return pa.table(columns, schema=self._schema)


def _split(url: str) -> SplitResult | None:
    """Split a URL into its parts; None for an invalid host or port.  No error quotes the URL."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _query_value(value: Any) -> str:
    """Format a value for a query string as JSON, but strings without quotes."""
    if isinstance(value, str):
        if "," in value:
            raise WrongAnswer(f"{value!r} has a comma in it and cannot be part of a list in a URL; use POST")
        return value
    return json.dumps(value)
