"""Exceptions of every kind as messages and exit codes."""

from __future__ import annotations

import http.client
import sqlite3

import pyarrow as pa
import pytest
from adbc_driver_manager import AdbcStatusCode, OperationalError, ProgrammingError

from command_line import dovetail
from dovetail.executor.connectors.database import Unreachable
from dovetail.optimizer.commands import about
from dovetail.optimizer.failures import CommandFailed, Exit, describe_failure, located
from dovetail.planner import errors


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), Exit.INTERRUPTED, "interrupted"),
        (errors.InputError("x"), Exit.UNUSABLE, "x"),
        (errors.CatalogError("x"), Exit.UNUSABLE, "x"),
        (errors.StateError("x"), Exit.UNUSABLE, "x"),
        (errors.HintError("x"), Exit.FAILED, "x"),
        (errors.UnknownName("x"), Exit.FAILED, "x"),
        (errors.LookupFailed("x"), Exit.MISSING, "x"),
        (Unreachable("x"), Exit.MISSING, "x"),
        (errors.EnvironmentProblem("x", remedy="y"), Exit.MISSING, "x; y"),
        (errors.RuleError("x"), Exit.FAULT, "x"),
        (FileNotFoundError(2, "No such file", "a.csv"), Exit.UNUSABLE, "a.csv: no such file"),
        (OSError(28, "No space left on device"), Exit.MISSING, "refused: no space left on device"),
        (
            ConnectionRefusedError(111, "Connection refused"),
            Exit.MISSING,
            "A server does not answer: Connection refused",
        ),
        (TimeoutError("no answer within 5 seconds"), Exit.MISSING, "A server does not answer: no answer within"),
        (OperationalError("gone", status_code=AdbcStatusCode.IO), Exit.MISSING, "The database does not answer: gone"),
        (ProgrammingError("no t", status_code=AdbcStatusCode.NOT_FOUND), Exit.FAILED, "The database refused: no t"),
        (sqlite3.DatabaseError("file is not a database"), Exit.FAILED, "refused: file is not a database"),
        (http.client.BadStatusLine("x"), Exit.MISSING, "The service does not answer in HTTP: x"),
        (pa.ArrowInvalid("x"), Exit.FAILED, "The rows cannot be read: x"),
        (MemoryError(), Exit.MISSING, "out of memory"),
        (RecursionError(), Exit.FAILED, "nested too deeply"),
        (
            UnicodeEncodeError("ascii", "aü", 1, 2, "ordinal"),
            Exit.MISSING,
            "'ü' cannot be written in ascii; set",
        ),
        (ZeroDivisionError("x"), Exit.FAULT, "Dovetail has a fault: ZeroDivisionError: x; `dovetail --debug …` shows"),
    ],
)
def test_messages_and_codes(error: BaseException, code: Exit, said: str) -> None:
    message, found = describe_failure(error)
    assert found is code
    assert said in message


def test_a_place_stands_before_the_message() -> None:
    with pytest.raises(CommandFailed, match=r"^--key t=a: x$") as failed, located("--key t=a"):
        raise errors.QueryError("x")
    assert failed.value.code is Exit.UNUSABLE  # what was given cannot be used; no query has failed
    with pytest.raises(CommandFailed) as failed, located("--catalog c.toml"):
        raise errors.LookupFailed("x")
    assert failed.value.code is Exit.MISSING
    with pytest.raises(ZeroDivisionError), located("--key t=a"):
        raise ZeroDivisionError


def test_a_fault_of_ours_is_one_message_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise KeyError("a\x1b[2J\nb")

    monkeypatch.setattr(about, "show_rules", broken)
    done = dovetail("rules")
    assert done.exit_code == Exit.FAULT
    assert done.stderr.startswith("error: Dovetail has a fault: KeyError: ")
    assert "\x1b" not in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in dovetail("--debug", "rules").stderr
