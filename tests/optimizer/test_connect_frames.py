"""DataFrames of Spark Connect: the same rows, columns and types, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from effort import SEED, examples
from planner.errors import Refused
from planner.runtime.dataframes.connect_names import Attribute, Scope, name_parts
from planner.runtime.dataframes.connect_statement import _numbered

PROGRAM = Path(__file__).parents[1] / "connect_frames_main.py"


@pytest.mark.connect
def test_dataframes(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path), str(SEED), str(examples(0.5))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    assert found["wrong"] == {}
    assert found["random rewritten"] >= found["random"] / 3, found["random reasons"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a.b", ("a", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("`a``b`", ("a`b",)),
        ("(ts + 1)", ("(ts + 1)",)),
        ("a.`b`", ("a", "b")),
    ],
)
def test_parts_of_a_name(name: str, parts: tuple[str, ...]) -> None:
    assert name_parts(name) == parts


@pytest.mark.parametrize("name", ["", "a.", ".a", "a..b", "`a"])
def test_names_that_spark_does_not_read(name: str) -> None:
    with pytest.raises(Refused):
        name_parts(name)


def test_the_column_of_a_name() -> None:
    left, right = (Attribute(n, "id", (alias,), {plan: 1, 9: n}) for n, alias, plan in ((1, "l", 3), (2, "r", 4)))
    scope = Scope((left, right, Attribute(5, "r")), str.lower)
    assert scope.find("L.ID", None) == (left, ())
    assert scope.find("id", 4) == (right, ())
    assert scope.find("id.f", 9) == (left, ("f",)), "the nearest"
    assert scope.find("r.id", None) == (right, ()), "an alias before a field"
    assert scope.find("r.x", None)[1] == ("x",)
    for name, plan in (("id", None), ("nowhere", None), ("id", 7), ("x.id", None)):
        with pytest.raises(Refused):
            scope.find(name, plan)
    with pytest.raises(Refused):
        Scope(scope.attributes, str).find("ID", 4)


def test_numbers_of_columns_in_the_text_of_a_plan() -> None:
    assert _numbered("Project [a#7L, b#9]\n+- R [a#7L, b#9]") == _numbered("Project [A#1L, c#2]\n+- R [x#1L, y#2]")
    assert _numbered("Project [a#7, b#9]\n+- R [a#7, b#9]") != _numbered("Project [a#7, b#9]\n+- R [b#9, a#7]")
    assert _numbered("[a#7, b#7]") != _numbered("[a#7, b#9]")
    assert _numbered("[a#7L]") != _numbered("[a#7]")
    assert _numbered("+- Join Cross, (a#1 > b#2)") == _numbered("+- Join Inner, (a#3 > b#4)")
    assert _numbered("Join Cross") != _numbered("Join Inner")
