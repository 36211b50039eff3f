"""The exact ends of a band: what is compared, whether strictly, and what is left alone."""

from __future__ import annotations

from typing import Literal

import pytest
from sqlglot import exp

from dovetail.planner.band.condition import DistanceBand, IntervalBand
from dovetail.planner.band.ends import Ends, read_ends
from dovetail.planner.band.linear import ConditionScope, Side
from dovetail.planner.band.read_bands import read_bands
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.types.schema import SqlType, sql_type

TYPES = {
    **dict.fromkeys(("x", "lo", "hi"), "bigint"),
    "n": "int",
    "g": "double",
    "c": "decimal(10,2)",
    "ts": "timestamp",
    "d": "date",
}


def ends(text: str, *, ansi: bool = True) -> Ends:
    def side(tree: exp.Expression) -> Side | Literal["both"] | None:
        found = {c.table for c in tree.find_all(exp.Column)}
        return "both" if len(found) > 1 else {"p": "left", "i": "right"}.get(next(iter(found), ""))  # type: ignore[return-value]

    def type_of(tree: exp.Expression) -> SqlType | None:
        text = TYPES.get(tree.name) if isinstance(tree, exp.Column) else None
        return sql_type(text) if text else SqlType("int") if isinstance(tree, exp.Literal) else None

    scope = ConditionScope(side, type_of, lambda tree: tree.sql().lower(), ansi, True)
    bands, refused = read_bands(tuple(Scalar(c) for c in text.split(" && ")), scope)
    assert bands, refused
    assert isinstance(bands[0], DistanceBand | IntervalBand)
    return read_ends(bands[0], scope)


@pytest.mark.parametrize(
    ("text", "low", "high", "open_low", "open_high"),
    [
        ("p.x BETWEEN i.lo AND i.hi", "i.lo", "i.hi", False, False),
        ("p.x >= i.lo && i.hi > p.x", "i.lo", "i.hi", False, True),
        ("i.lo < p.x && p.x <= i.hi", "i.lo", "i.hi", True, False),
        ("p.x > i.x - 5 && p.x < i.x + 7", "TRY_SUBTRACT(i.x, 5)", "TRY_ADD(i.x, 7)", True, True),
    ],
)
def test_ends_as_written(text: str, low: str, high: str, open_low: bool, open_high: bool) -> None:
    found = ends(text)
    assert (found.side, found.point) == ("left", "p.x")
    assert (found.low, found.high) == (low, high)
    assert (found.open_low, found.open_high) == (open_low, open_high)


def test_without_ansi_sums_wrap_around_as_written() -> None:
    found = ends("p.x BETWEEN i.x - 5 AND i.x + 7", ansi=False)
    assert (found.low, found.high) == ("i.x - 5", "i.x + 7")


def test_the_point_may_stand_on_the_right() -> None:
    found = ends("i.x BETWEEN p.lo AND p.hi")
    assert (found.side, found.point, found.low) == ("right", "i.x", "p.lo")


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("abs(p.n - i.n) <= 5", -5, 5),
        ("abs(i.n - p.n) < 5", -4, 4),
        ("abs(p.n - i.n) < 2.5", -2, 2),
        ("p.n - i.n BETWEEN -3 AND 4", -3, 4),
        ("p.n - i.n < 4 && i.n - p.n < 3", -2, 3),
    ],
)
def test_differences_of_integers_have_whole_ends(text: str, low: int, high: int) -> None:
    found = ends(text)
    assert (found.low, found.high) == (f"CAST(i.n AS BIGINT) + {low}L", f"CAST(i.n AS BIGINT) + {high}L")
    assert not found.open_low
    assert not found.open_high


def test_an_end_beyond_bigint_is_the_farthest_there_is() -> None:
    found = ends("abs(p.x - i.x) <= 5")
    assert found.low.endswith("coalesce(try_add(CAST(i.x AS BIGINT), -5L), -9223372036854775807L - 1L) END")
    assert ends("p.x - i.x >= 2 && p.x - i.x <= 5").low == "try_add(CAST(i.x AS BIGINT), 2L)"


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("p.n BETWEEN i.lo AND i.hi", "BIGINT"),
        ("p.c BETWEEN i.n AND i.n + 1", "DECIMAL(12,2)"),
        ("p.ts BETWEEN i.ts AND i.ts + INTERVAL 10 MINUTES", "TIMESTAMP"),
        ("p.d BETWEEN i.d AND i.d + 7", "DATE"),
    ],
)
def test_one_type_for_all(text: str, type_: str) -> None:
    assert str(ends(text).type) == type_


@pytest.mark.parametrize(
    "text",
    [
        "p.x BETWEEN i.g AND i.g + 1",
        "abs(p.g - i.g) <= 5",
        "abs(p.c - i.c) <= 5",
        "p.x - i.x < 4 && i.x - p.x <= 3",
        "p.x >= i.lo && p.x + 1 <= i.hi && p.n > 1",
        "(abs(p.x - i.x) <= 5 AND p.n < i.n)",
    ],
)
def test_left_alone(text: str) -> None:
    with pytest.raises(Refused):
        ends(text)
