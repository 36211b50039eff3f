"""Joins of streams on Spark Connect: the tests of classic sessions run there, and those of what only Connect has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail.executor.state import server_folder
from dovetail.executor.state.server_folder import _import_refusal

TESTS = Path(__file__).parents[1]
# Clients that say goodbye to a server which has ended wait for an answer.
_RUN = "import os, sys, pytest; code = pytest.main(sys.argv[1:]); sys.stdout.flush(); os._exit(code)"
RUN_THERE = (
    "test_model.py",
    "test_delta.py::test_each_joined_row_once",
    "test_temporal.py::test_the_version_that_was_valid",
    "test_left_joins.py::test_what_has_been_returned_is_the_join_of_what_is_there",
    "test_changelogs.py::test_what_has_been_returned_is_the_join_of_what_is_there",
    "test_within.py::test_all_pairs_are_found_whatever_the_type",
)


@pytest.mark.connect
@pytest.mark.parametrize("name", RUN_THERE)
def test_the_tests_of_a_classic_session(name: str) -> None:
    """The same tests, with the same models, in a process whose session is a client of Spark Connect."""
    names = [str(TESTS / "streams" / name), "-p", "no:cacheprovider", "-q", "--tb=short"]
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *names],
        cwd=TESTS.parent,
        env={**os.environ, "DOVETAIL_SESSION": "connect"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]


@pytest.mark.connect
@pytest.mark.parametrize("kind", [[], ["bare"]], ids=["with Dovetail", "without"])
def test_on_a_server(tmp_path: Path, kind: list[str]) -> None:
    program = [sys.executable, str(TESTS / "connect_streams_main.py"), str(tmp_path), *kind]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.rindex('{"') :])
    assert {name: outcome for name, outcome in found.items() if outcome != "right"} == {}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("ModuleNotFoundError: No module named 'planner'", "cannot import Dovetail"),
        (
            "Traceback\n  File x\npyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker …\n\n",
            "PYTHON_VERSION_MISMATCH",
        ),
        ("An exception was thrown", "An exception was thrown"),
    ],
)
def test_why_a_server_runs_no_functions(error: str, reason: str) -> None:
    assert reason in _import_refusal(error)


@pytest.mark.parametrize(
    ("path", "full"),
    [
        ("/a/b/", "/a/b"),
        ("//a/../b", "/b"),
        ("b c", "/home/b c"),
        ("file:/a%20b", "/a%20b"),
        ("file:///a/./b", "/a/b"),
        ("file://host/a", "/a"),
        ("s3a://bucket/a", None),
        ("hdfs:/a", None),
        ("/a:b", "/a:b"),
    ],
)
def test_paths_on_the_server(monkeypatch: pytest.MonkeyPatch, path: str, full: str | None) -> None:
    monkeypatch.setattr(server_folder, "_working_folder", lambda session: "/home/")
    found: Any = server_folder._full_path
    assert found(None, path) == full
    monkeypatch.setattr(server_folder, "_working_folder", lambda session: "")
    assert found(None, path) == (full if path.startswith("file:") else None), "another default file system"
