"""What Spark is told of two large sides, in the statement it gets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dovetail import plan_sql
from dovetail.planner.offline_catalog.read_catalog import read_catalog

FILES = read_catalog(Path(__file__).parents[2] / "golden_plans/cases/hints/files.toml")
LEFT, RIGHT = "c.ts DIV 200", "__dt1_bin"


def written(condition: str, right: str = "packed", kind: str = "JOIN") -> str:
    """The rewriting of a join by a band that also has this condition."""
    query = f"SELECT c.ts FROM clicks c {kind} {right} v ON {condition} AND abs(c.ts - v.ts) <= 50"
    text = plan_sql(query, FILES).rewriting
    assert text is not None
    return text


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize(
    ("condition", "left", "right"),
    [
        ("c.page = v.page", "c.page", "v.page"),
        ("v.page = c.page", "c.page", "v.page"),
        ("c.id = v.user", "CAST(c.id AS BIGINT)", "CAST(v.user AS BIGINT)"),
        ("c.id = v.id AND v.page = c.page", "c.id, c.page", "v.id, v.page"),
        ("c.id = v.id AND c.score = v.score AND c.id = 3", "c.id", "v.id"),
    ],
)
def test_equal_columns_go_into_the_bins_and_stay_conditions(kind: str, condition: str, left: str, right: str) -> None:
    text = written(condition, kind=kind)
    assert f"ON xxhash64({left}) ^ {LEFT} = xxhash64({right}) ^ {RIGHT} AND {condition} AND abs(" in text
    assert text.startswith("SELECT /*+ MERGE(v) */")


@pytest.mark.parametrize(
    "condition",
    ["c.score = v.score", "c.page <=> v.page", "c.page = v.user", "c.id = v.id * 1", "c.id < v.id", "c.id = c.id"],
)
def test_what_has_no_one_hash_does_not(condition: str) -> None:
    assert re.search(rf"ON {re.escape(LEFT)} = {RIGHT} AND {re.escape(condition)} AND abs\(", written(condition))


def test_nor_does_anything_beside_a_hash_table() -> None:
    text = written("c.id = v.id", right="views")
    assert text.startswith("SELECT /*+ SHUFFLE_HASH(v) */")
    assert "xxhash64" not in text
