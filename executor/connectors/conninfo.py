"""Parses PostgreSQL connection strings as libpq does, to find the passwords in them.

There are two forms, ``postgresql://user:password@host:port/database?name=value`` and ``name=value name='a value'``.
A malformed or ambiguous string is refused here: libpq's error would quote what it takes for a host or a port, and that
may be part of the password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

_URI = re.compile(r"postgres(?:ql)?://")
_PARTS = re.compile(
    r"(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?(?P<hosts>[^/?]*)(?:/(?P<dbname>[^?]*))?(?:\?(?P<query>.*))?",
    re.DOTALL,
)
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
# Accepted forms of the parts that libpq quotes in errors: no part of a password fits them.
_PLAIN = {
    "host": re.compile(r"[\w.,:\-]*|/[\w./\-]*|@[\w.\-]*"),
    "hostaddr": re.compile(r"[0-9A-Fa-f.:,%]*"),
    "port": re.compile(r"[0-9,]*"),
    "user": re.compile(r"[^@:/?#\s]*"),
    "dbname": re.compile(r"[^@:/?#\s=]*"),
}
_PAIR = re.compile(r"\s*(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)*))(?=\s|$)", re.DOTALL | re.ASCII)


class Malformed(Exception):
    """A connection string that cannot be parsed; the message quotes no part of the string."""


def parse_conninfo(text: str) -> dict[str, str]:
    """Parse a connection string into its parameters by name.  Raises ``Malformed``."""
    found = _parse_uri(text[match.end() :]) if (match := _URI.match(text)) else _parse_pairs(text)
    for name, value in found.items():
        if name not in _NAMES:
            raise Malformed("it has a parameter that PostgreSQL does not have")
        if "\0" in value:
            raise Malformed("it has a zero byte")
        if name in _PLAIN and not _PLAIN[name].fullmatch(value):
            raise Malformed(f"its {name} has reserved characters; in a password write / as %2F, @ as %40")
    return found


def secret_values(found: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of secret parameters."""
    return tuple(value for name, value in found.items() if name in _SECRET and value)


def format_conninfo(found: Mapping[str, str]) -> str:
    """Format parameters unambiguously as ``name='value'``."""
    return " ".join(f"{name}='{_escape(value)}'" for name, value in found.items())


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")


def _parse_pairs(text: str) -> dict[str, str]:
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


def _parse_uri(rest: str) -> dict[str, str]:
    """Parse the part after ``postgresql://``, with libpq's order of delimiters."""
    if any(space in rest for space in _SPACE):
        raise Malformed("it has a space; write it as %20")
    parts = _PARTS.fullmatch(rest)
    assert parts is not None  # which takes any text
    hosts = [_parse_host(one) for one in parts["hosts"].split(",")] if parts["hosts"] else []
    host, port = (",".join(values) for values in zip(*hosts, strict=True)) if hosts else ("", "")
    named = {name: _decode(parts[name] or "") for name in ("user", "password", "dbname")} | {"host": host, "port": port}
    found = {name: value for name, value in named.items() if value}
    return found | _parse_parameters(parts["query"] or "")


def _parse_parameters(query: str) -> dict[str, str]:
    """Parse what follows the question mark."""
    found: dict[str, str] = {}
    for pair in query.split("&") if query else ():
        name, equals, value = pair.partition("=")
        if not equals or "=" in value:
            raise Malformed("after its ? it must have pairs of name=value")
        name = _decode(name)
        if name == "ssl" and value == "true":
            name, value = "sslmode", "require"
        found[name] = _decode(value)
    return found


def _parse_host(text: str) -> tuple[str, str]:
    """Parse a host and its port."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]*))(?::([0-9]*))?", text)
    if match is None:
        raise Malformed("it has no host and port where they belong; in a password write / as %2F, @ as %40")
    return match[1] or _decode(match[2] or ""), match[3] or ""


def _decode(text: str) -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})|%00", text):
        raise Malformed("it has a % that begins no escape; write it as %25")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise Malformed("it has a % escape that is not UTF-8") from None
