"""Levels and common bins for intervals of measured lengths; what is estimated is a number whatever the ends."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dovetail.planner.band.axis import Axis, real
from dovetail.planner.band.bins import (
    EVERYTHING,
    Levels,
    common_bins,
    generic_levels,
    hinted_width,
    levels,
    levels_from,
    levels_from_density,
    met,
    neighbours,
    one_level,
    single_bin_levels,
    touched,
    unmeasured_levels,
)
from dovetail.planner.catalog.measure import read_length_classes
from dovetail.planner.catalog.stats import LengthClass

EXACT = Axis("number", exact=True, integral_types=True)
REAL = Axis("number", exact=False)


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
        chosen = levels(classes_of(lengths), axis, spread=8, max_bins=16)
        assert chosen.widths
        assert list(chosen.widths) == sorted(set(chosen.widths))
        for length in lengths:
            width = next((w for w in chosen.widths[:-1] if length <= w * chosen.max_bins), chosen.widths[-1])
            assert length <= width * chosen.max_bins * 2.2 or width == EVERYTHING


@given(st.lists(st.floats(1, 2000), min_size=1, max_size=40))
def test_lengths_of_a_kind_need_one_level_of_their_mean(lengths: list[float]) -> None:
    chosen = levels(classes_of(lengths), REAL, spread=1e6, max_bins=65_536)
    mean = sum(lengths) / len(lengths)
    assert len(chosen.widths) == 1
    assert math.isclose(chosen.widths[0], mean, rel_tol=0.06)


def test_a_few_open_ended_intervals_get_a_level_of_their_own() -> None:
    sessions = (LengthClass(100_000, 1e6, 15.9), LengthClass(10, 3e12, 4e11))
    assert len(levels(sessions, EXACT, spread=1024, max_bins=65_536).widths) == 2
    assert levels((), EXACT, spread=1024, max_bins=65_536) == Levels((EVERYTHING,), 65_536)


def test_intervals_of_no_length_stand_in_bins_of_some_width() -> None:
    assert single_bin_levels((LengthClass(9, 0.0, 0.0, 1.0, 5.0),), REAL).widths == (1.0, EVERYTHING)
    mixed = (LengthClass(10**9, 0.0, 0.0, 0.0, 1e9), LengthClass(5, 2.5, 0.5, 0.0, 1e9))
    assert all(width > 0 for width in single_bin_levels(mixed, REAL).widths)


@given(st.sampled_from((0.0, 1.0, 2e6, 1e12, 1e300, 1e305)), st.integers(1, 10**12))
def test_levels_for_lengths_that_are_not_known_end_in_one_that_takes_everything(span: float, points: int) -> None:
    for axis in (EXACT, REAL, Axis("date", exact=True, small=True), Axis("timestamp", exact=True)):
        for chosen in (levels_from_density(axis, span, points), generic_levels(axis), unmeasured_levels(axis, 65_536)):
            assert list(chosen.widths) == sorted(set(chosen.widths))
            assert chosen.widths[-1] == EVERYTHING
        assert len(levels_from_density(axis, 2e6, points).widths) <= 9


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e6)), min_size=2, max_size=40), st.integers(1, 100))
def test_common_bins_copy_no_interval_beyond_its_reach(intervals: list[tuple[float, float]], max_bins: int) -> None:
    lengths = [length for _, length in intervals]
    first, last = min(low for low, _ in intervals), max(low + length for low, length in intervals)
    found = [LengthClass(c.count, c.total, c.longest, first, last) for c in classes_of(lengths)]
    for axis in (EXACT, REAL):
        chosen = common_bins(tuple(found[:1]), tuple(found), axis, max_bins=max_bins)
        if first == last:
            assert chosen is None
            continue
        assert chosen is not None
        assert chosen.width * max_bins >= max(lengths)
        assert axis == REAL or chosen.width >= 2
        assert sum(chosen.rows) >= found[0].count + len(lengths)


def test_intervals_without_an_end_have_no_common_bins() -> None:
    short = (LengthClass(100, 1e3, 15.0, 0.0, 1e6),)
    assert common_bins(short, short, EXACT, max_bins=16) is not None
    for longest in (math.inf, math.nan, 1e300):
        assert common_bins(short, (*short, LengthClass(1, longest, longest, 0.0, 2e6)), EXACT, max_bins=16) is None
    assert common_bins((), (), EXACT, max_bins=16) is None
    assert common_bins(short, short, EXACT, max_bins=16, width=0.5) is None
    asked = common_bins(short, short, EXACT, max_bins=16, width=7.5)
    assert asked is not None
    assert asked.width == 8.0


# Ends that stand for none, of every size that a type has, next to ordinary ones.
FARTHEST = (
    -math.inf,
    -1.7976931348623157e308,
    -1e308,
    -1e300,
    -9.2e18,
    -3.4e38,
    0.0,
    5e-324,
    1.0,
    730.0,
    2.9e6,
    9.2e18,
)
LINE = st.one_of(st.floats(-1e6, 1e6), st.sampled_from((*FARTHEST, *(-end for end in FARTHEST))))
HINTS = st.sampled_from((None, *(Fraction(10) ** n for n in (-400, -300, -20, -4, 0, 5, 19, 40, 300, 400))))


def asked(intervals: list[tuple[float, float]]) -> tuple[LengthClass, ...]:
    """The classes of intervals as the measuring query returns them, and as planning reads its answer."""
    found: dict[float, list[tuple[float, float, float]]] = {}
    for low, high in intervals:
        length = high - low
        if length >= 0 or math.isnan(length):  # as Spark compares: NaN is the greatest
            power = math.floor(math.log2(length)) if 0 < length < 1e300 else (-9999 if length == 0 else 9999)
            found.setdefault(power, []).append((low, high, length))
    rows = []
    for group in found.values():
        lows, highs, lengths = zip(*group, strict=True)
        longest = math.nan if any(map(math.isnan, lengths)) else max(lengths)
        rows.append((float(len(group)), sum(lengths), longest, min(lows), max(highs)))
    return read_length_classes(rows)


@given(st.lists(st.tuples(LINE, LINE), max_size=30), st.lists(st.tuples(LINE, LINE), max_size=30), HINTS)
def test_bins_and_estimates_are_numbers_whatever_the_ends(
    ones: list[tuple[float, float]], others: list[tuple[float, float]], hint: Fraction | None
) -> None:
    one, other = asked(ones), asked(others)
    for axis in (EXACT, REAL, Axis("date", exact=True, small=True), Axis("number", exact=False, float32=True)):
        width = None if hint is None else hinted_width(hint, axis)
        chosen = [
            levels(one, axis, spread=1024, max_bins=65_536),
            single_bin_levels(one, axis),
        ]
        if single := one_level(one, axis, max_bins=65_536):
            chosen.append(single)
        hinted = []
        if width is not None:
            hinted = [levels_from(width, c, axis, max_bins=65_536, generic_plan=c is None) for c in (one, None)]
        for found in [*chosen, *hinted]:
            assert all(0 < w <= EVERYTHING for w in found.widths), found
            assert list(found.widths) == sorted(set(found.widths))
            assert not axis.exact or width is None or found.widths[0] >= 2 or found not in hinted
            assert not one or 1 <= touched(found, one) <= 1e300
            for single_bin in (False, True):
                met_here = met(found, one, single_bin=single_bin)
                assert met_here is None or 0 <= met_here <= sum(c.count for c in one)
        both = common_bins(one, other, axis, max_bins=65_536, width=width)
        if both is not None:
            assert 0 < both.width < EVERYTHING
            assert math.isfinite(both.pairs)
            assert all(map(math.isfinite, both.rows))
        for text in (axis.human(Fraction(w)) for found in [*chosen, *hinted] for w in found.widths):
            assert len(text) < 60, text


@given(LINE, LINE, HINTS, st.integers(1, 2))
def test_bands_of_any_width_have_bins_that_are_numbers(
    low: float, high: float, hint: Fraction | None, times: int
) -> None:
    if not -math.inf < low <= high < math.inf:
        return
    for axis in (EXACT, REAL, Axis("date", exact=True, small=True), Axis("number", exact=False, float32=True)):
        bins = neighbours(Fraction(low), Fraction(high), axis, hint, times=times)
        if bins is not None:
            assert 0 < real(bins.width) < math.inf
            assert math.isfinite(bins.copies)
            assert len(axis.human(bins.width)) < 60


def test_few_that_reach_far_do_not_hide_what_the_others_meet() -> None:
    """Ten rows valid until the year 9999 among those of two years."""
    short = LengthClass(1_000_000, 7e6, 15.0, 0.0, 730.0)
    far = LengthClass(10, 2.9e7, 2.9e6, 0.0, 2.9e6)
    alone, beside = met(Levels((7.0,), 65_536), (short,)), met(Levels((7.0, 2.9e6), 65_536), (short, far))
    assert alone is not None
    assert beside is not None
    assert 0.9 * alone < beside < 1.1 * alone + 10
    endless = LengthClass(1_000, math.inf, math.inf, 0.0, math.inf)
    assert met(Levels((7.0, EVERYTHING), 65_536), (short, endless)) == alone + 1_000
    assert met(Levels((EVERYTHING,), 65_536), (endless,)) == 1_000
