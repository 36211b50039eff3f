"""An HTTP service that takes many keys at once and answers in JSON.

    HttpSource("https://rates.example/lookup", schema=pa.schema(...), keys=("currency", "day"))

    POST {"keys": [{"currency": "EUR", "day": "2026-01-31"}, …]}
    200  [{"currency": "EUR", "day": "2026-01-31", "rate": 1.08}, …]

The client is the standard library's: it keeps one connection open, follows no redirect, so that no credential goes to
another host, and needs no package on the workers.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urlsplit

from planner.connectors.answer import WrongAnswer
from planner.connectors.credentials import Credential, read, redacted
from planner.connectors.source import LookupSource
from planner.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

_CONNECT = 30.0  # seconds for a connection, and between two parts of an answer
_SHOWN = 200  # letters of an answer that is no success


class HttpSource(LookupSource):
    """A JSON endpoint.

    ``keys``: the columns that it is asked by.  A POST sends ``{"keys": [{…}, …]}``, the values of one key as they are
    if there is one column only.  With ``parameter`` it is a GET instead: ``?ids=1,2,3``, for one column.  ``rows``
    names the member of the answer that has the rows, if the answer is not a list itself.  ``headers`` may be
    credentials: ``{"Authorization": env("RATES_TOKEN")}``.

    In JSON dates are ISO texts, decimals numbers or texts, and bytes base64.  A member that an object lacks is NULL;
    one that all lack is an error.
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
    ) -> None:
        parts = _split(url)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise SourceError("the url of a lookup begins with http:// or https:// and has a host, and perhaps a port")
        if "@" in parts.netloc + parts.path + parts.fragment:  # a password may have a / or # in it
            raise SourceError("the url has a user or password in it; send it as a header: headers={…: env(…)}")
        if lacking := [key for key in keys if key not in schema.names]:
            raise SourceError(f"the schema has no column {lacking[0]}; columns: {', '.join(schema.names)}")
        if parameter is not None and len(keys) != 1:
            raise SourceError("a GET asks by one column; leave parameter out to POST several")
        self._url = url
        self._schema = schema
        self._keys = tuple(keys)
        self._parameter = parameter
        self._rows = rows
        self._headers = dict(headers or {})
        self.unique_keys = tuple(tuple(columns) for columns in unique_keys)
        self.fetch_keys = (self._keys,)
        self._connection: http.client.HTTPConnection | None = None
        self._read: dict[str, str] = {}

    def schema(self) -> pa.Schema:
        return self._schema

    def fetch(self, keys: pa.Table) -> pa.Table:
        status, reason, body = self._asked([_as_json(row) for row in keys.to_pylist()])
        if status != http.client.OK:
            said = " ".join(body[:_SHOWN].decode(errors="replace").split())
            raise ConnectionError(f"status {status} {reason}{': ' if said else ''}{said}")
        try:
            answer = json.loads(body, parse_float=Decimal)
        except ValueError as error:
            raise WrongAnswer(f"the answer is no JSON: {error}") from None
        return self._table(answer)

    def open(self) -> None:
        self._read = {name: read(value, f"the header {name} of {self!r}") for name, value in self._headers.items()}

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def cancel(self) -> None:
        connection = self._connection
        if connection is not None and connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)

    def redacted(self, text: str) -> str:
        hidden = [*self._read.values(), urlsplit(self._url).query]
        return redacted(text, [*hidden, *(word for value in hidden for word in value.split() if len(word) > 6)])

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_connection": None, "_read": {}}

    def __repr__(self) -> str:
        parts = urlsplit(self._url)
        return f"HTTP service {parts.scheme}://{parts.netloc}{parts.path}"

    def _asked(self, keys: list[dict[str, Any]]) -> tuple[int, str, bytes]:
        """One request and its answer."""
        parts = urlsplit(self._url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {"Accept": "application/json", **self._read}
        values = [key[self._keys[0]] for key in keys] if len(self._keys) == 1 else keys
        if self._parameter is not None:
            listed = ",".join(quote(_word(value), safe="") for value in values)
            target += f"{'&' if parts.query else '?'}{quote(self._parameter)}={listed}"
            return self._exchanged("GET", target, None, headers)
        headers["Content-Type"] = "application/json"
        return self._exchanged("POST", target, json.dumps({"keys": values}).encode(), headers)

    def _exchanged(
        self, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str, bytes]:
        """Send over the connection that is open; a server may have closed it meanwhile, then over a new one."""
        if self._connection is not None:
            try:
                return self._sent(self._connection, method, target, body, headers)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.close()
        parts = urlsplit(self._url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=_CONNECT)
        return self._sent(self._connection, method, target, body, headers)

    def _sent(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: dict[str, str],
    ) -> tuple[int, str, bytes]:
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        return response.status, response.reason, response.read()

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
                found = ", ".join(answer[0]) or "none"
                raise WrongAnswer(f"the column {field.name} did not come back; columns: {found}")
            columns.append(pa.array([_value(row.get(field.name), field) for row in answer], field.type))
        return pa.table(columns, schema=self._schema)


def _split(url: str) -> SplitResult | None:
    """The parts of a URL; None where its host or port are none, without a word of what they are."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _as_json(key: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in key.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _word(value: Any) -> str:
    """A value in a query string, as JSON writes it, but texts without quotes; a comma in it is escaped twice."""
    if isinstance(value, str):
        if "," in value:
            raise WrongAnswer(f"{value!r} has a comma in it and cannot be asked for in a list; use POST")
        return value
    return json.dumps(value)


def _value(value: Any, field: pa.Field) -> Any:
    """A value out of JSON as the column's type has it; raises ``WrongAnswer`` where it is of another type."""
    import pyarrow as pa

    if value is None:
        return None
    type_ = field.type
    readers: list[tuple[Callable[[Any], bool], tuple[type, ...], Callable[[Any], Any]]] = [
        (pa.types.is_boolean, (bool,), bool),
        (pa.types.is_integer, (int,), int),
        (pa.types.is_floating, (int, Decimal, float), float),
        (pa.types.is_decimal, (int, str, Decimal), Decimal),
        (pa.types.is_date, (str,), date.fromisoformat),
        (pa.types.is_timestamp, (str,), datetime.fromisoformat),
        (pa.types.is_binary, (str,), base64.b64decode),
        (pa.types.is_string, (str,), str),
    ]
    for is_type, kinds, convert in readers:
        if is_type(type_):
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                break
            try:
                return convert(value)
            except (ValueError, ArithmeticError):
                break
    raise WrongAnswer(f"the column {field.name} came back as {value!r}; it is {type_}")
