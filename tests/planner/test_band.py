"""The reader of band conditions: one normal form for every spelling, and a reason for what is none."""

from __future__ import annotations

from typing import Literal

import pytest
from sqlglot import exp

from planner.band import DistanceBand, is_or_of_comparisons, looks_like_band, read_bands
from planner.expr import Scalar
from planner.linear import Side, Vocabulary
from planner.schema import SqlType, sql_type

TYPES = {
    **dict.fromkeys(("x", "y", "lo", "hi"), "bigint"),
    **dict.fromkeys(("ts", "start", "end"), "timestamp"),
    "n": "int",
    "f": "float",
    "g": "double",
    "s": "string",
    "d": "date",
    "z": "timestamp_ntz",
    "m": "decimal(38,10)",
    "c": "decimal(10,2)",
}


def words(*, ansi: bool = True, fixed_zone: bool = True) -> Vocabulary:
    """Columns of ``p`` stand on the left, of ``i`` on the right; the name tells the type."""

    def side(tree: exp.Expression) -> Side | Literal["both"] | None:
        found = {c.table for c in tree.find_all(exp.Column)}
        return "both" if len(found) > 1 else {"p": "left", "i": "right"}.get(next(iter(found), ""))  # type: ignore[return-value]

    def type_of(tree: exp.Expression) -> SqlType | None:
        text = TYPES.get(tree.name) if isinstance(tree, exp.Column) else None
        return sql_type(text) if text else SqlType("date") if isinstance(tree, exp.Cast) else None

    return Vocabulary(side, type_of, lambda tree: tree.sql().lower(), ansi, fixed_zone)


def bands(text: str, **settings: bool) -> tuple[list[str], list[str]]:
    found, refused = read_bands(tuple(Scalar(c) for c in text.split(" && ")), words(**settings))
    return [str(b) for b in found], [no.reason for no in refused]


SAME = {
    "p.x between i.lo and i.hi": (
        "p.x BETWEEN i.lo AND i.hi",
        "p.x >= i.lo && p.x <= i.hi",
        "i.lo <= p.x && i.hi > p.x",
        "(p.x > i.lo) && (i.hi >= p.x)",
        "p.x - i.lo >= 0 && i.hi - p.x >= 0",
        "0 <= p.x - i.lo && p.x < i.hi",
    ),
    "p.x - i.y in [-5, 5]": (
        "abs(p.x - i.y) <= 5",
        "abs(i.y - p.x) < 5",
        "p.x BETWEEN i.y - 5 AND i.y + 5",
        "i.y BETWEEN p.x - 5 AND 5 + p.x",
        "p.x - i.y <= 5 && i.y - p.x <= 5",
        "5 >= abs(p.x - i.y)",
        "abs(p.x - i.y) <= 5L",
        "p.x + 5 >= i.y && p.x - 5 <= i.y",
        "-5 <= p.x - i.y && (p.x - i.y) - 5 <= 0",
        "abs(p.x - i.y) <= 10 * 0.5",
    ),
    "p.ts - i.start in [-10m, 20m]": (
        "p.ts BETWEEN i.start - INTERVAL 10 MINUTES AND i.start + INTERVAL '20' MINUTE",
        "p.ts - i.start <= INTERVAL '0 00:20:00' DAY TO SECOND && i.start - p.ts <= INTERVAL 600 SECONDS",
        "i.start BETWEEN p.ts - INTERVAL '00:20' HOUR TO MINUTE AND p.ts + INTERVAL 10 MINUTES",
    ),
    "p.d - i.d in [0d, 7d]": (
        "p.d BETWEEN i.d AND i.d + 7",
        "p.d >= i.d && p.d <= i.d + INTERVAL 7 DAYS",
        "p.d - i.d <= INTERVAL '1' WEEK && p.d >= i.d",
    ),
    "p.g - i.g in [-0.5, 0.25]": ("p.g - i.g <= 0.25 && i.g - p.g <= 5e-1",),
    "p.c - i.c in [1.5, 2]": ("p.c BETWEEN i.c + 1.50 AND i.c + 2",),
}


@pytest.mark.parametrize(("band", "text"), [(band, t) for band, texts in SAME.items() for t in texts])
def test_every_spelling_is_one_band(band: str, text: str) -> None:
    assert bands(text) == ([band], [])


REFUSED = [
    ("p.x >= i.lo", "p.x >= i.lo is open at one end; not a band"),
    ("p.x >= i.lo && p.y <= i.hi", "open at one end"),
    ("p.s BETWEEN i.s AND i.s", "strings are compared letter by letter"),
    ("p.ts BETWEEN i.start - INTERVAL 1 MONTH AND i.start", "not a day-time interval literal of fixed length"),
    ("p.ts BETWEEN i.start - INTERVAL '1-2' YEAR TO MONTH AND i.start", "not a day-time interval literal"),
    ("p.d BETWEEN i.start AND i.d + 1", "cannot be put on one axis"),
    ("p.d BETWEEN i.d AND i.d + INTERVAL 24 HOURS", "does not keep on one axis"),
    ("p.ts BETWEEN i.z AND i.z", "TIMESTAMP and TIMESTAMP_NTZ cannot be put on one axis"),
    ("p.x BETWEEN i.lo * 2 AND i.hi", "could raise an error"),
    ("p.x BETWEEN CAST(i.s AS INT) AND i.hi", "could raise an error"),
    ("p.x BETWEEN udf(i.lo) AND i.hi", "could raise an error"),
    ("p.m BETWEEN i.m - 1 AND i.m + 1", "do not fit one DECIMAL"),
    ("p.g - i.g >= -5 && i.g - p.g >= -5", "NaN"),
    ("p.g - i.g >= 0 && p.g <= i.g", "NaN"),
    ("p.g - i.g BETWEEN -5 AND 5", "NaN"),
    ("p.x + p.y BETWEEN i.lo AND i.hi", "adds up p.x and p.y"),
    ("2 * p.x BETWEEN i.lo AND i.hi", "could raise an error"),
    ("p.nope BETWEEN i.lo AND i.hi", "the type of p.nope is not known"),
    ("p.x BETWEEN i.lo AND greatest(p.y, i.hi)", "mixes both sides"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_is_no_band_has_a_reason(text: str, reason: str) -> None:
    found, refused = bands(text)
    assert found == []
    assert reason in "; ".join(refused)


def test_comparisons_of_one_side_are_nobodys_business() -> None:
    assert bands("p.x BETWEEN 1 AND 5 && p.x > p.y && i.lo < i.hi") == ([], [])
    assert not looks_like_band(Scalar("p.x BETWEEN 1 AND 5"))
    assert not looks_like_band(Scalar("p.x = i.lo"))
    assert looks_like_band(Scalar("p.x < i.lo"))
    assert is_or_of_comparisons(Scalar("p.x < i.lo OR p.k = 1"))
    assert not is_or_of_comparisons(Scalar("p.order = 1"))


def test_constant_width_comes_first_and_the_first_written_of_a_kind() -> None:
    found, refused = bands("p.x BETWEEN i.lo AND i.hi && abs(p.y - i.y) <= 3 && p.ts BETWEEN i.start AND i.end")
    assert found == ["p.y - i.y in [-3, 3]", "p.x between i.lo and i.hi", "p.ts between i.start and i.end"]
    assert refused == []


def test_without_ansi_only_sums_that_wrap_harmlessly_are_taken() -> None:
    assert bands("p.x BETWEEN i.y - 5 AND i.y + 5", ansi=False)[0]
    assert bands("p.x BETWEEN i.lo - 5 AND i.hi + 5", ansi=False)[0]
    assert bands("p.x BETWEEN i.lo AND i.hi", ansi=False)[0]
    assert bands("abs(p.g - i.g) <= 5", ansi=False)[0]
    for text in (
        "abs(p.x - i.y) <= 5",
        "p.x BETWEEN i.y + 5 AND i.y + 9",
        "p.x BETWEEN i.lo AND i.hi - 3",
        "p.f BETWEEN i.n AND i.n",
    ):
        found, refused = bands(text, ansi=False)
        assert found == []
        assert "spark.sql.ansi.enabled is false" in refused[0]


def test_a_day_is_given_room_where_clocks_change() -> None:
    text = "p.ts BETWEEN i.start AND i.start + INTERVAL 1 DAY"
    assert bands(text)[0] == ["p.ts - i.start in [0s, 1d]"]
    found, _ = read_bands((Scalar(text),), words(fixed_zone=False))
    assert [(str(b), b.room) for b in found if isinstance(b, DistanceBand)] == [
        ("p.ts - i.start in [0s, 1d]", 26 * 3600 * 10**6)
    ]
    assert bands("p.ts BETWEEN i.start AND i.start + INTERVAL 23 HOURS", fixed_zone=False)[0] == [
        "p.ts - i.start in [0s, 23h]"
    ]
    assert bands("p.z BETWEEN i.z AND i.z + INTERVAL 1 DAY", fixed_zone=False)[0] == ["p.z - i.z in [0s, 1d]"]
