"""Random tests draw the same for the same seed, whatever else has changed; eight rounds run every test."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from effort import ROUND
from selection import PARTS, in_part

CONSTANT = 739_184_652_913
MANY = settings(max_examples=200, phases=[Phase.generate])


def drawn() -> list[tuple[int, str]]:
    found = []

    @MANY
    @given(st.integers(), st.text())
    def draw(number: int, text: str) -> None:
        found.append((number, text))

    draw()
    return found


def test_constants_of_files_do_not_move_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    path = tmp_path / "with_constants.py"
    path.write_text(f"NUMBERS = [{', '.join(str(CONSTANT + n) for n in range(100))}]")
    spec = importlib.util.spec_from_file_location("with_constants", path)
    assert spec is not None
    monkeypatch.setitem(sys.modules, "with_constants", importlib.util.module_from_spec(spec))
    assert drawn() == before


def test_the_text_of_a_test_does_not_move_its_examples() -> None:
    found = []

    @MANY
    @given(st.integers(), st.text())
    def draw(number: int, text: str) -> None:
        """Another text than above."""
        found.extend([(number, text)])

    draw()
    assert found == drawn()


def test_eight_rounds_run_each_test_once() -> None:
    names = [f"tests/test_{n}.py::test_it[{n}]" for n in range(800)]
    parts = [[name for name in names if in_part(name, ROUND + n, PARTS)] for n in range(PARTS)]
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert min(map(len, parts)) > 50
