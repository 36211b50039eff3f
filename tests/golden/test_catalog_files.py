"""Catalog files, as a user of the pytest plugin meets them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dovetail.planner.errors import CatalogError
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from golden_project import BAND, CATALOG, SQL, approve

pytest_plugins = ["pytester"]


def test_a_catalog_is_found_in_a_folder_above_or_by_its_path(project: Any) -> None:
    approve(project, "a/b/c/band.plan")
    project.write("elsewhere/other.toml", CATALOG)
    approve(project, "a/band.plan", BAND.replace("line", "../elsewhere/other.toml"))
    project.write("a/near.toml", CATALOG)
    approve(project, "a/b/near.plan", BAND.replace("line", "near"))


def test_a_catalog_that_is_missing(project: Any) -> None:
    project.write("band.plan", BAND.replace("line", "lime"))
    said = project.failure("band.plan")
    assert "band.plan, line 2: there is no catalog 'lime'; did you mean 'line'? possible: line" in said


def test_a_case_without_a_catalog(project: Any) -> None:
    project.write("band.plan", f"-- Prose.\n{SQL}")
    assert "band.plan: there is no `-- catalog:` line; possible: line" in project.failure("band.plan")


def test_a_broken_catalog_fails_the_case(project: Any) -> None:
    project.write("catalogs/line.toml", "[tables.points\n")
    project.write("band.plan", BAND)
    assert "line.toml: not TOML: Expected ']' at the end of a table declaration (at line 1" in project.failure(
        "band.plan"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "table = 1",
            "table: there is no such key; did you mean 'tables'? possible: extends, lookup, measured, session, tables",
        ),
        ("tables = 1", "tables: 1 is not a table"),
        ("session.ansy = true", "session.ansy: there is no such key; did you mean 'ansi'?"),
        ("session.ansi = 1", "session.ansi: 1 is not true or false"),
        ("session.time_zone = 'Mars'", "session.time_zone: there is no time zone 'Mars'"),
        ("[tables.a]", "tables.a: it has no columns; write columns = { id ="),
        ("[tables.a]\ncolums = {}", "tables.a.colums: there is no such key; did you mean 'columns'?"),
        ("[tables.a.columns]\nid = 'LONGINT'", "tables.a.columns.id: 'LONGINT' is not a type of Spark; did you mean"),
        ("[tables.a.columns]\nid = 1", "tables.a.columns.id: 1 is not a text; write for example"),
        ("[tables.a.columns]\nid = 'INT'\nID = 'INT'", "tables.a.columns.ID: two columns have the same name"),
        (
            "[tables.'a b'.columns]\nid = 'INT'",
            "tables.a b: 'a b' is not the name of a table; put odd names into backticks",
        ),
        ("[tables.a]\ncolumns = {id = 'INT'}\nrows = -1", "tables.a.rows: -1 is not a number of rows"),
        (
            "[tables.a]\ncolumns = {id = 'INT'}\nkeys = ['id']",
            "tables.a.keys[1]: 'id' is not a list of columns",
        ),
        (
            "[tables.a]\ncolumns = {id = 'INT'}\nkeys = [['idd']]",
            "tables.a.keys: there is no column 'idd'; did you mean 'id'?",
        ),
        (
            "[tables.a]\ncolumns = {id = 'INT'}\ndata = 'idd'",
            "tables.a.data: there is no column 'idd'; did you mean 'id'?",
        ),
        ("[tables.a]\ncolumns = {id = 'INT'}\ndata = 'id\n'", "line.toml: not TOML"),
        (
            '[tables.a]\ncolumns = {id = "INT"}\ndata = """\nid\n1 | 2"""',
            "line 3: tables.a.data: row 1: 2 values for 1 columns",
        ),
        ('[tables.a]\ncolumns = {id = "INT"}\ndata = """\nid\nx"""', "tables.a.data: row 1: 'x' is not a INT (id)"),
        ("extends = 'lime'", "line 1: extends: there is no catalog 'lime' next to this file; possible: none"),
        ("extends = 'line'", "line.toml: extends itself: line.toml > line.toml"),
        ("[tables.a.columns]\nid = 'INT'\n[tables.A.columns]\nid = 'INT'", "tables: two tables have the same name"),
    ],
)
def test_a_broken_catalog_names_the_file_the_key_and_what_is_possible(tmp_path: Path, text: Any, message: Any) -> None:
    path = tmp_path / "line.toml"
    path.write_text(text)
    with pytest.raises(CatalogError) as error:
        read_catalog(path)
    assert re.match(r"line\.toml(, line \d+)?: ", str(error.value))
    assert message in str(error.value)
