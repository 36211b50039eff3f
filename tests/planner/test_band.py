"""The reader of band conditions: one normal form for every spelling, and a reason for what is none."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta
from fractions import Fraction
from typing import Literal

import pytest
from sqlglot import exp

from dovetail.planner.band.axis import DAY
from dovetail.planner.band.comparisons import is_or_of_comparisons, looks_like_band
from dovetail.planner.band.condition import DistanceBand
from dovetail.planner.band.lengths import months
from dovetail.planner.band.linear import ConditionScope, Side
from dovetail.planner.band.read_bands import read_bands
from dovetail.planner.expr import Scalar
from dovetail.planner.types.schema import SqlType, sql_type

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
    "len": "interval day to second",
    "q": "interval year to month",
}


def scope(*, ansi: bool = True, has_fixed_offset_zone: bool = True) -> ConditionScope:
    """Columns of ``p`` stand on the left, of ``i`` on the right; the name tells the type."""

    def side(tree: exp.Expression) -> Side | Literal["both"] | None:
        found = {c.table for c in tree.find_all(exp.Column)}
        return "both" if len(found) > 1 else {"p": "left", "i": "right"}.get(next(iter(found), ""))  # type: ignore[return-value]

    def type_of(tree: exp.Expression) -> SqlType | None:
        text = (
            TYPES.get(tree.name) if isinstance(tree, exp.Column) else "int" if isinstance(tree, exp.Literal) else None
        )
        return sql_type(text) if text else SqlType("date") if isinstance(tree, exp.Cast) else None

    return ConditionScope(side, type_of, lambda tree: tree.sql().lower(), ansi, has_fixed_offset_zone)


def bands(text: str, **settings: bool) -> tuple[list[str], list[str]]:
    found, refused = read_bands(tuple(Scalar(c) for c in text.split(" && ")), scope(**settings))
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


READ = [
    ("p.x + p.y BETWEEN i.lo AND i.hi", "TRY_ADD(p.x, p.y) between i.lo and i.hi"),
    ("p.g + p.f BETWEEN i.g AND i.g + 1", "(p.g + p.f) - i.g in [0, 1]"),
    ("2 * p.x BETWEEN i.lo AND i.hi - 3", "TRY_MULTIPLY(2, p.x) between i.lo and i.hi - 3"),
    ("p.x BETWEEN CAST(i.s AS INT) AND i.hi", "p.x between TRY_CAST(i.s AS INT) and i.hi"),
    ("p.x BETWEEN i.lo / 2 AND abs(i.hi)", "p.x between TRY_DIVIDE(i.lo, 2) and GREATEST(i.hi, TRY_SUBTRACT(0, i.hi))"),
    ("p.x BETWEEN try_subtract(i.y, 5) AND try_add(i.y, 5)", "p.x - i.y in [-5, 5]"),
    ("p.d BETWEEN date_sub(i.d, 3) AND date_add(i.d, 3)", "p.d - i.d in [-3d, 3d]"),
    ("datediff(p.d, i.d) BETWEEN -3 AND 3", "p.d - i.d in [-3d, 3d]"),
    ("datediff(p.ts, i.d) BETWEEN 0 AND i.n", "TRY_CAST(p.ts AS DATE) between i.d and i.d + i.n"),
    ("p.d BETWEEN i.d AND add_months(i.d, 3)", "p.d - i.d in [0d, 93d]"),
    ("p.ts BETWEEN i.ts - INTERVAL 1 MONTH AND i.ts + INTERVAL '1-1' YEAR TO MONTH", "p.ts - i.ts in [-31d, 397d]"),
    ("p.ts BETWEEN i.ts + INTERVAL 1 YEAR AND i.ts + INTERVAL 2 YEARS", "p.ts - i.ts in [365d, 732d]"),
    ("p.ts BETWEEN i.ts AND i.ts + INTERVAL '1 day 2 hours'", "p.ts - i.ts in [0s, 1d2h]"),
    ("p.ts BETWEEN i.ts AND i.ts + CAST('4.5' AS INTERVAL SECOND)", "p.ts - i.ts in [0s, 4.5s]"),
    ("p.ts BETWEEN i.ts - INTERVAL 1 HOUR AND i.ts + CAST('-2' AS INTERVAL MINUTE)", "p.ts - i.ts in [-1h, -2m]"),
    ("p.ts BETWEEN i.ts AND timestampadd(MINUTE, 10, i.ts)", "p.ts - i.ts in [0s, 10m]"),
    ("timestampdiff(MINUTE, i.ts, p.ts) BETWEEN 0 AND 10", "p.ts - i.ts in [-1m, 11m]"),
    ("abs(datediff(HOUR, i.ts, p.ts)) <= 1", "p.ts - i.ts in [-2h, 2h]"),
    ("p.ts BETWEEN i.d AND i.d + 1", "p.ts - i.d in [0s, 1d]"),
    ("p.d BETWEEN i.d AND i.d + INTERVAL 36 HOURS", "p.d - i.d in [0s, 1d12h]"),
    ("p.ts BETWEEN i.z AND i.z", "p.ts - i.z in [0s, 0s]"),
    ("p.ts BETWEEN i.ts AND i.ts + i.len", "p.ts between i.ts and i.ts + i.len"),
    ("p.len BETWEEN i.len AND i.len + INTERVAL 1 HOUR", "p.len - i.len in [0s, 1h]"),
    ("p.ts BETWEEN i.ts AND i.ts + i.n * INTERVAL '1' MINUTE", "i.ts + (CAST(i.n AS DOUBLE) * 60000000.0D)"),
    ("p.ts BETWEEN i.ts AND i.ts + make_interval(0, 0, 0, 2, 1)", "p.ts - i.ts in [0s, 2d1h]"),
    ("unix_seconds(p.ts) - unix_seconds(i.ts) BETWEEN -5 AND 5", "unix_seconds(p.ts) - unix_seconds(i.ts) in [-5, 5]"),
    ("to_date(p.ts) BETWEEN i.d AND last_day(i.d)", "to_date(p.ts) between i.d and last_day(i.d)"),
    ("-p.g BETWEEN i.g AND i.f", "(-p.g) between i.g and i.f"),
    ("10 - p.g BETWEEN i.g AND i.f", "(10 - p.g) between i.g and i.f"),
    ("-p.x BETWEEN i.lo AND i.hi", "p.x between -i.hi and -i.lo"),
    ("p.x % p.y BETWEEN i.lo AND i.hi", "(p.x % p.y) between i.lo and i.hi"),
    ("p.x BETWEEN ceil(i.g) AND i.hi", "p.x between ceil(i.g) and i.hi"),
    ("p.s BETWEEN i.lo AND i.hi", "TRY_CAST(p.s AS BIGINT) between i.lo and i.hi"),
    ("p.ts BETWEEN i.s AND i.s", "p.ts - TRY_CAST(i.s AS TIMESTAMP_LTZ) in [0s, 0s]"),
    ("p.ts BETWEEN i.ts AND i.ts + '90 minutes'::interval", "p.ts - i.ts in [0s, 1h30m]"),
    ("p.ts BETWEEN i.ts AND i.ts + interval (90) minutes", "p.ts - i.ts in [0s, 1h30m]"),
]


@pytest.mark.parametrize(("text", "band"), READ)
def test_expressions_are_computed_in_their_try_forms(text: str, band: str) -> None:
    found, refused = bands(text)
    assert refused == []
    assert band in found[0]


def test_what_is_added_to_a_leaf_is_the_widest_that_months_can_be() -> None:
    for start in (date(2023, 1, 1) + timedelta(days=n) for n in range(0, 1500, 3)):
        for count in (*range(-30, 31), 48, 120, -120):
            month = start.year * 12 + start.month - 1 + count
            year, number = divmod(month, 12)
            end = date(year, number + 1, min(start.day, monthrange(year, number + 1)[1]))
            length = months(count)
            assert abs((end - start).days * DAY - length.micros) <= length.spread


def test_room_where_local_times_differ_from_the_clock() -> None:
    for text, room in (
        ("p.ts - i.ts BETWEEN INTERVAL 0 SECONDS AND INTERVAL 1 HOUR", 26),
        ("p.ts BETWEEN i.ts AND i.ts + INTERVAL 1 HOUR", 0),
        ("p.ts BETWEEN i.ts AND i.ts + INTERVAL 1 DAY - INTERVAL 23 HOURS", 26),
        ("p.ts BETWEEN i.z AND i.z + INTERVAL 1 HOUR", 26),
        ("timestampdiff(MINUTE, i.ts, p.ts) BETWEEN 0 AND 10", 26),
        ("p.ts BETWEEN i.d AND i.d + INTERVAL 1 HOUR", 0),
        ("p.ts BETWEEN i.d AND i.d + 1", 26),
    ):
        found, _ = read_bands((Scalar(text),), scope(has_fixed_offset_zone=False))
        assert [b.room for b in found if isinstance(b, DistanceBand)] == [room * 3600 * 10**6], text


def test_without_ansi_expressions_stay_as_they_are() -> None:
    assert bands("p.x + p.y BETWEEN i.lo AND i.hi * 2", ansi=False)[0] == ["(p.x + p.y) between i.lo and (i.hi * 2)"]
    assert bands("p.x BETWEEN CAST(i.s AS INT) AND i.hi", ansi=False)[0] == ["p.x between CAST(i.s AS INT) and i.hi"]
    assert bands("p.g BETWEEN i.lo - 5 AND i.hi - 3", ansi=False)[0] == []
    assert bands("abs(p.x - i.g) <= 5", ansi=False)[0]


@pytest.mark.parametrize(("band", "text"), [(band, t) for band, texts in SAME.items() for t in texts])
def test_every_spelling_is_one_band(band: str, text: str) -> None:
    assert bands(text) == ([band], [])


REFUSED = [
    ("p.x >= i.lo", "p.x >= i.lo bounds p.x on one side only, so there is no band; add an upper bound"),
    ("p.x >= i.lo && p.y >= i.hi", "on one side only"),
    ("p.s + 1 BETWEEN i.s AND i.s", "strings are compared letter by letter"),
    ("p.x BETWEEN udf(i.lo) AND i.hi", "udf(i.lo) is not known to be deterministic"),
    ("p.x BETWEEN coalesce(i.s, i.lo) AND i.hi", "the type of coalesce(i.s, i.lo) is not known"),
    ("p.x BETWEEN rand() * i.lo AND i.hi", "rand() is not known to be deterministic"),
    ("p.x BETWEEN i.arr[0].lo AND i.hi", "the type of i.arr[0].lo is not known"),
    ("datediff(p.s, i.d) BETWEEN 0 AND 3", "p.s is no date"),
    ("timestampdiff(MONTH, i.ts, p.ts) BETWEEN 0 AND 3", "counts what has no fixed length"),
    ("timestampdiff(DAY, i.z, p.z) BETWEEN 0 AND 3", "p.z is no TIMESTAMP"),
    ("p.ts BETWEEN i.start AND i.start + make_interval(0, i.n)", "every row has its own number"),
    ("p.ts BETWEEN i.start AND i.start + 1", "adds a time to a number, or a number to a time"),
    ("p.z BETWEEN i.d AND i.d + INTERVAL 1 HOUR", "DATE and TIMESTAMP_NTZ cannot be put on one axis"),
    ("p.q BETWEEN i.q AND i.q", "cannot be put on one axis"),
    ("p.m BETWEEN i.m - 1 AND i.m + 1", "do not fit one DECIMAL"),
    ("p.g - i.g >= -5 && i.g - p.g >= -5", "NaN"),
    ("p.g - i.g >= 0 && p.g <= i.g", "NaN"),
    ("p.g - i.g >= -5 && p.g <= i.g + 5", "NaN"),
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
    found, _ = read_bands((Scalar(text),), scope(has_fixed_offset_zone=False))
    assert [(str(b), b.room) for b in found if isinstance(b, DistanceBand)] == [
        ("p.ts - i.start in [0s, 1d]", Fraction(26 * 3600 * 10**6))
    ]
    assert bands("p.ts BETWEEN i.start AND i.start + INTERVAL 23 HOURS", has_fixed_offset_zone=False)[0] == [
        "p.ts - i.start in [0s, 23h]"
    ]
    assert bands("p.z BETWEEN i.z AND i.z + INTERVAL 1 DAY", has_fixed_offset_zone=False)[0] == [
        "p.z - i.z in [0s, 1d]"
    ]
