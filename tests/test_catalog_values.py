"""Every key of a catalog file with values of every wrong type, as both readers take them."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from command_line import dovetail
from dovetail.optimizer.commands.catalog import read_catalog as read_for_commands
from dovetail.planner.catalog_file.keys import FILE, PLANNING, SOURCES, TABLE
from dovetail.planner.errors import CatalogError, InputError
from dovetail.planner.offline_catalog.read_catalog import read_catalog as read_golden
from effort import SEED, fuzzing
from wrong_values import VALUES, Place, at_place, catalog, places, toml, with_key, with_value

PLACES = list(places(catalog()))
READERS = pytest.mark.parametrize(
    ("read", "error"),
    [(read_golden, CatalogError), (lambda path: read_for_commands(str(path)), InputError)],
    ids=["golden plans", "command line"],
)
Reader = Callable[[Path], object]


def other_type(place: Place, value: Any) -> bool:
    """Whether a value is of another type than the right one at a place."""
    right = at_place(catalog(), place)
    if place[0] == "measured" and place[-2:-1] == (0,) and isinstance(right, int | float | str):
        return isinstance(value, bool) or not (isinstance(value, int | float) or value in ("NULL", "FROM points"))
    if "options" in place[:-1]:
        return not isinstance(value, str | int | float)
    return type(value) is not type(right)


@READERS
def test_the_catalog_itself_is_right(tmp_path: Path, read: Reader, error: type[Exception]) -> None:
    (tmp_path / "line.toml").write_text(toml(catalog()))
    assert read(tmp_path / "line.toml") is not None


def test_the_catalog_has_every_key() -> None:
    names = {name for place in PLACES for name in place}
    assert set(FILE.keys) - {"extends"} <= names
    assert {*TABLE, *PLANNING, *(key for keys in SOURCES.values() for key in keys)} <= names


@READERS
@pytest.mark.hypothesis  # for `make fuzz`, which takes every pair of a place and a value
def test_values_of_every_wrong_type(tmp_path: Path, read: Reader, error: type[Exception]) -> None:
    """A value is taken, or the message names file, line and key; one of another type is never taken."""
    path, refused = tmp_path / "line.toml", 0
    sampled = list(product(PLACES, VALUES))[0 if fuzzing() else SEED % 29 :: 1 if fuzzing() else 29]
    for place, value in sampled:
        text = toml(with_value(place, value))
        path.write_text(text)
        try:
            read(path)
        except error as wrong:
            refused += 1
            check_message(str(wrong), text, place)
        else:
            assert not other_type(place, value), (place, value)
    assert refused > len(sampled) / 2


def check_message(said: str, text: str, place: Place) -> None:
    """File and line, the key, no control characters, and not without end."""
    found = re.match(r"(?:--catalog )?\S*line\.toml, line (\d+): (.*)", said, re.DOTALL)
    assert found, said
    assert len(said) < 700, len(said)
    assert said.isprintable(), said
    named = found[2].partition(": ")[0]
    assert named.startswith(str(place[0])), (said, place)
    *_, last = re.findall(r"\w+", re.sub(r"\[\d+\]", "", named))
    assert last in text.splitlines()[int(found[1]) - 1], said


@READERS
def test_keys_that_do_not_exist(tmp_path: Path, read: Reader, error: type[Exception]) -> None:
    path = tmp_path / "line.toml"
    free = ("columns", "types", "headers_env", "options", "tables", "lookup")  # tables with names of the user's
    checked = 0
    for place in PLACES:
        name = place[-1]
        if not isinstance(name, str) or (len(place) > 1 and place[-2] in free) or len(name) < 4:
            continue
        wrong = name[:-2] + name[-1]
        path.write_text(toml(with_key(place, wrong)))
        with pytest.raises(error, match=rf"line \d+: \S*{wrong}: there is no such key; did you mean '{name}'"):
            read(path)
        checked += 1
    assert checked > 50


@pytest.mark.parametrize("number", range(3))
def test_the_command_line_ends_in_a_message(tmp_path: Path, number: int) -> None:
    path = tmp_path / "line.toml"
    wrong = [(place, value) for place in PLACES for value in VALUES if other_type(place, value)]
    for place, value in wrong[number :: len(wrong) // 15]:
        path.write_text(toml(with_value(place, value)))
        done = dovetail("explain", "--sql", "SELECT 1", "--catalog", path)
        assert done.exit_code == 2, (place, value, done.stderr)
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith(f"error: --catalog {path}, line ")


@READERS
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "not TOML"),
        ("a = " + "[" * 5_000, "not TOML"),
        ("a = " + "9" * 5_000, "not TOML"),
        ("a = 2024-13-45", "not TOML"),
        ("\0", "not TOML"),
        ("extends = 'gone'", "there is no catalog 'gone'"),
        ("extends = '../line'", "there is no catalog '../line'"),
        ("extends = 'a\\u0000'", "extends"),
        ("extends = '" + "x" * 5_000 + "'", "extends"),
        ("extends = 'line'", "extends itself"),
    ],
)
def test_files_that_are_no_catalog(tmp_path: Path, read: Reader, error: type[Exception], text: str, said: str) -> None:
    path = tmp_path / "line.toml"
    path.write_text(text)
    with pytest.raises(error) as wrong:
        read(path)
    assert said in str(wrong.value)
    assert "line.toml" in str(wrong.value)


@READERS
def test_a_catalog_extends_one_in_another_folder(tmp_path: Path, read: Reader, error: type[Exception]) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "shop.toml").write_text(toml(catalog()))
    (tmp_path / "deep" / "more.toml").write_text("extends = '../shop'\n")
    found: Any = read(tmp_path / "deep" / "more.toml")
    assert len(found.tables) == 2
    assert len(found.lookups) == 8
    (tmp_path / "shop.toml").write_text("[tables.points]\nrows = -1\n")
    with pytest.raises(error, match=r"shop\.toml, line 2: tables\.points\.rows: -1 is not a number"):
        read(tmp_path / "deep" / "more.toml")
