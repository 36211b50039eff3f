"""The making of TPC data: texts keep their meaning, and half-made data is never taken for whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tpc import data

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("duckdb", "spark"),
    [
        ('SELECT 1 AS "30 days"', "SELECT 1 AS `30 days`"),
        ("""SELECT '"' AS q -- a "comment\"""", """SELECT '"' AS q -- a "comment\""""),
        ("""SELECT 'it''s' AS "it's\"""", "SELECT 'it''s' AS `it's`"),
        ('SELECT 1 AS "a""b`c"', 'SELECT 1 AS `a"b``c`'),
    ],
)
def test_only_names_change_their_quotes(duckdb: str, spark: str) -> None:
    assert data.for_spark(duckdb) == spark


def test_every_query_is_there() -> None:
    assert [len(data.queries(suite)) for suite in data.SUITES] == [22, 99]


def test_data_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOVETAIL_DATA", str(tmp_path))
    made = data.generate("tpch", 0.001)
    before = {path: path.stat().st_mtime_ns for path in made.iterdir()}
    assert len(before) == 8
    assert data.generate("tpch", 0.001) == made
    assert {path: path.stat().st_mtime_ns for path in made.iterdir()} == before
    assert [path.name for path in made.parent.iterdir()] == [made.name]


def test_half_made_data_is_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setenv("DOVETAIL_DATA", str(tmp_path))
    monkeypatch.setattr(data, "_publish", fail)
    with pytest.raises(RuntimeError, match="the disk is full"):
        data.generate("tpch", 0.001)
    assert not data.folder("tpch", 0.001).exists()
    assert list((tmp_path / "tpc").iterdir()) == []
