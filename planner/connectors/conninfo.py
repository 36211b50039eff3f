"""Connection strings of PostgreSQL, read as libpq reads them, so that it is known which part of one is a password.

There are two forms, ``postgresql://user:password@host:port/database?name=value`` and ``name=value name='a value'``.
What is not well formed, or reads in another way than it seems to be meant, is refused here: libpq would say what it
took for a host or a port, and that may be a part of the password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

_URI = re.compile(r"postgres(?:ql)?://")
_SPACE = " \t\n\r\f\v"
_SECRET = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_NAMES = frozenset(
    """
    application_name channel_binding client_encoding connect_timeout dbname fallback_application_name gssdelegation
    gssencmode gsslib host hostaddr keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname
    load_balance_hosts max_protocol_version min_protocol_version oauth_client_id oauth_issuer oauth_scope options
    passfile port replication require_auth requirepeer service servicefile ssl_max_protocol_version
    ssl_min_protocol_version sslcert sslcertmode sslcompression sslcrl sslcrldir sslkey sslkeylogfile sslmode
    sslnegotiation sslrootcert sslsni target_session_attrs tcp_user_timeout user
    """.split()
).union(_SECRET)
# What the parts that libpq speaks of may look like: nothing in which a piece of a password could hide.
_PLAIN = {
    "host": re.compile(r"[\w.,:\-]*|/[\w./\-]*|@[\w.\-]*"),
    "hostaddr": re.compile(r"[0-9A-Fa-f.:,%]*"),
    "port": re.compile(r"[0-9,]*"),
    "user": re.compile(r"[^@:/?#\s]*"),
    "dbname": re.compile(r"[^@:/?#\s=]*"),
}
_PAIR = re.compile(r"\s*(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)*))(?=\s|$)", re.DOTALL | re.ASCII)


class Malformed(Exception):
    """A connection string that cannot be read; what it says holds nothing of the string."""


def parameters(text: str) -> dict[str, str]:
    """The parameters of a connection string by their names.  Raises ``Malformed``."""
    found = _of_uri(text[match.end() :]) if (match := _URI.match(text)) else _of_pairs(text)
    for name, value in found.items():
        if name not in _NAMES:
            raise Malformed("it has a parameter that PostgreSQL does not know")
        if "\0" in value:
            raise Malformed("it has a zero byte")
        if name in _PLAIN and not _PLAIN[name].fullmatch(value):
            raise Malformed(f"its {name} has characters that belong elsewhere; in a password write / as %2F, @ as %40")
    return found


def secrets(found: Mapping[str, str]) -> tuple[str, ...]:
    """The values that must not be seen."""
    return tuple(value for name, value in found.items() if name in _SECRET and value)


def written(found: Mapping[str, str]) -> str:
    """The parameters as ``name='value'``, in which nothing can be read in two ways."""
    return " ".join(f"{name}='{_escaped(value)}'" for name, value in found.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")


def _of_pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    rest = text.rstrip(_SPACE)
    while at < len(rest):
        pair = _PAIR.match(rest, at)
        if pair is None:
            raise Malformed("it is neither a URI nor pairs of name=value; put a value with spaces into quotes")
        name, quoted, plain = pair.groups()
        found[name] = re.sub(r"\\(.)", r"\1", plain if quoted is None else quoted, flags=re.DOTALL)
        at = pair.end()
    return found


def _of_uri(rest: str) -> dict[str, str]:
    """What stands behind ``postgresql://``, split in the order in which libpq looks for its marks."""
    if any(space in rest for space in _SPACE):
        raise Malformed("it has a space; write it as %20")
    found: dict[str, str] = {}
    before = re.match(r"[^@/]*@", rest)
    if before:
        user, colon, password = before[0][:-1].partition(":")
        if user:
            found["user"] = _decoded(user)
        if colon and password:
            found["password"] = _decoded(password)
        rest = rest[before.end() :]
    where, slash, behind = _split(rest, "/?")
    hosts = [_host(one) for one in where.split(",")] if where else []
    for name, values in (("host", [h for h, _ in hosts]), ("port", [p for _, p in hosts])):
        if joined := ",".join(values):
            found[name] = joined
    query = behind if slash == "?" else ""
    if slash == "/":
        database, mark, query = _split(behind, "?")
        if database:
            found["dbname"] = _decoded(database)
        query = query if mark else ""
    for pair in query.split("&") if query else ():
        name, equals, value = pair.partition("=")
        if not equals or "=" in value:
            raise Malformed("behind its ? stands something else than pairs of name=value")
        name = _decoded(name)
        if name == "ssl" and value == "true":
            name, value = "sslmode", "require"
        found[name] = _decoded(value)
    return found


def _split(text: str, marks: str) -> tuple[str, str, str]:
    """The text before the first of some marks, that mark, and the text behind it."""
    at = next((n for n, character in enumerate(text) if character in marks), len(text))
    return text[:at], text[at : at + 1], text[at + 1 :]


def _host(text: str) -> tuple[str, str]:
    """A host and its port."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]*))(?::([0-9]*))?", text)
    if match is None:
        raise Malformed("it has no host and port where they belong; in a password write / as %2F, @ as %40")
    return match[1] or _decoded(match[2] or ""), match[3] or ""


def _decoded(text: str) -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})|%00", text):
        raise Malformed("it has a % that begins no escape; write it as %25")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise Malformed("it has an escape that is no UTF-8") from None
