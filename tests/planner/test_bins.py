"""The theorems behind the bins, in plain Python on random numbers; Spark comes later."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from planner.axis import Axis
from planner.bins import (
    EVERYTHING,
    MOST_BINS,
    Levels,
    Neighbours,
    levels,
    neighbours,
    standing_levels,
    unmeasured_levels,
)
from planner.stats import LengthClass

EXACT = Axis("number", exact=True, integral_types=True)
REAL = Axis("number", exact=False)
LONG = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-50, 50))
WIDE = st.one_of(st.integers(-(2**40), 2**40), st.integers(-20, 20))


def truncated(value: int, width: Fraction) -> int:
    """``value DIV width`` as Spark does it."""
    return int(math.copysign(1, value)) * (abs(value) // int(width))


def real_bin(value: float, bins: Neighbours, *, left: bool) -> int:
    """The bin of a DOUBLE as Spark computes it."""
    if not left:
        value += float(bins.shift)
    quotient = value / float(bins.width)
    return MOST_BINS if math.isnan(quotient) else math.floor(min(max(quotient, -MOST_BINS), MOST_BINS))


@given(LONG, WIDE, WIDE, WIDE)
def test_whole_numbers_within_a_band_lie_in_neighbouring_bins(y: int, a: int, b: int, where: int) -> None:
    low, high = sorted((a, b))
    x = y + low + (where % (high - low + 1))
    bins = neighbours(Fraction(low), Fraction(high), EXACT)
    step = truncated(x, bins.width) - truncated(y, bins.width)
    assert bins.first <= step <= bins.last
    assert bins.width >= 2, "or a bin and a step could overflow BIGINT"


@given(WIDE, WIDE)
def test_a_row_is_copied_a_few_times_only(a: int, b: int) -> None:
    low, high = sorted((a, b))
    for axis in (EXACT, REAL):
        assert neighbours(Fraction(low), Fraction(high), axis).copies <= 6


@given(
    st.floats(allow_nan=False, width=64),
    st.floats(-1e9, 1e9),
    st.floats(0, 1e9),
    st.floats(0, 1),
)
def test_reals_within_a_band_lie_in_neighbouring_bins(y: float, low: float, span: float, where: float) -> None:
    """As Spark evaluates ``x BETWEEN y + low AND y + high``, rounding included."""
    high = low + span
    first, last = y + low, y + high
    x = min(max(first + where * (last - first) if math.isfinite(last - first) else last, first), last)
    bins = neighbours(Fraction(low), Fraction(high), REAL)
    if float(bins.width) == 0:
        return
    step = real_bin(x, bins, left=True) - real_bin(y, bins, left=False)
    assert bins.first <= step <= bins.last


def test_nan_and_infinity_meet_themselves() -> None:
    for low, high in ((-5, 5), (1, 2), (-7, -3), (0, 0)):
        bins = neighbours(Fraction(low), Fraction(high), REAL)
        for value in (math.nan, math.inf, -math.inf, 1e308, -1e308):
            assert bins.first <= real_bin(value, bins, left=True) - real_bin(value, bins, left=False) <= bins.last


def classes_of(lengths: list[float]) -> tuple[LengthClass, ...]:
    """What the measuring query returns."""
    found: dict[float, list[float]] = {}
    for length in lengths:
        power = math.floor(math.log2(length)) if 0 < length < 1e300 else (9999 if length else -9999)
        found.setdefault(power, []).append(length)
    return tuple(LengthClass(len(v), sum(v), max(v)) for _, v in sorted(found.items()))


@given(st.lists(st.one_of(st.floats(0, 1e18), st.just(math.inf), st.integers(0, 100).map(float)), max_size=40))
def test_no_interval_is_copied_beyond_its_reach(lengths: list[float]) -> None:
    for axis in (EXACT, REAL):
        chosen = levels(classes_of(lengths), axis, spread=8, reach=16)
        assert chosen.widths
        assert list(chosen.widths) == sorted(set(chosen.widths))
        for length in lengths:
            width = next((w for w in chosen.widths[:-1] if length <= w * chosen.reach), chosen.widths[-1])
            assert length <= width * chosen.reach * 2.2 or width == EVERYTHING


@given(st.lists(st.floats(1, 2000), min_size=1, max_size=40))
def test_lengths_of_a_kind_need_one_level_of_their_mean(lengths: list[float]) -> None:
    chosen = levels(classes_of(lengths), REAL, spread=1e6, reach=65_536)
    mean = sum(lengths) / len(lengths)
    assert len(chosen.widths) == 1
    assert math.isclose(chosen.widths[0], mean, rel_tol=0.06)


def test_a_few_open_ended_intervals_get_a_level_of_their_own() -> None:
    sessions = (LengthClass(100_000, 1e6, 15.9), LengthClass(10, 3e12, 4e11))
    assert len(levels(sessions, EXACT, spread=1024, reach=65_536).widths) == 2
    assert levels((), EXACT, spread=1024, reach=65_536) == Levels((EVERYTHING,), 65_536)


def test_intervals_of_no_length_stand_in_bins_of_some_width() -> None:
    assert standing_levels((LengthClass(9, 0.0, 0.0, 1.0, 5.0),), REAL).widths == (1.0, EVERYTHING)
    mixed = (LengthClass(10**9, 0.0, 0.0, 0.0, 1e9), LengthClass(5, 2.5, 0.5, 0.0, 1e9))
    assert all(width > 0 for width in standing_levels(mixed, REAL).widths)


def test_unmeasured_levels_end_in_one_that_takes_everything() -> None:
    for axis in (EXACT, REAL, Axis("date", exact=True, small=True), Axis("timestamp", exact=True)):
        chosen = unmeasured_levels(axis, 65_536)
        assert chosen.widths[-1] == EVERYTHING
        assert len(chosen.widths) <= 5
