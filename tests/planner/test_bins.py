"""The theorems behind the bins, in plain Python on random numbers; Spark comes later."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.planner.band.axis import Axis, number
from dovetail.planner.band.bins import EVERYTHING, MOST_BINS, MOST_BINS_FLOAT32, FixedWidthBins, halved, neighbours

EXACT = Axis("number", exact=True, integral_types=True)
REAL = Axis("number", exact=False)
SMALL = Axis("number", exact=True, integral_types=True, small=True)
FLOAT32 = Axis("number", exact=False, float32=True)
LONG = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-50, 50))
WIDE = st.one_of(st.integers(-(2**40), 2**40), st.integers(-20, 20))
REALS = st.one_of(st.floats(allow_nan=False), st.floats(-1e18, 1e18), st.integers(-100, 100).map(float))
ENDS = st.one_of(st.floats(-1e9, 1e9), st.floats(-1e300, 1e300), st.floats(-1e18, 1e18))


def some(bins: FixedWidthBins | None) -> FixedWidthBins:
    """The bins, of which there are some."""
    assert bins is not None
    return bins


def single(value: float) -> float:
    """The FLOAT nearest to a DOUBLE."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def truncated(value: int, width: Fraction) -> int:
    """``value DIV width`` as Spark does it."""
    return int(math.copysign(1, value)) * (abs(value) // int(width))


def whole_bins(y: int, bins: FixedWidthBins, *, half: bool) -> range:
    """The bins that a row's band touches, as Spark computes them; no sum leaves BIGINT."""
    ends = []
    for end in (bins.low, bins.high):
        moved = truncated(y, Fraction(2)) + int(end / 2) if half else y + int(end)
        assert -(2**63) <= moved < 2**63
        assert not half or (end / 2).denominator == 1
        ends.append(truncated(moved, bins.width / 2 if half else bins.width))
    return range(ends[0], ends[1] + 1)


def real_bin(value: float, bins: FixedWidthBins, added: Fraction = Fraction(0), most: int = MOST_BINS) -> int:
    """The bin of a DOUBLE as Spark computes it."""
    quotient = value / float(bins.width) + float(added / bins.width)
    return most if math.isnan(quotient) else math.floor(min(max(quotient, -most), most))


def real_bins(value: float, bins: FixedWidthBins, most: int = MOST_BINS) -> range:
    """The bins that the band of a DOUBLE touches."""
    return range(real_bin(value, bins, bins.low, most), real_bin(value, bins, bins.high, most) + 1)


WIDTHS = st.none() | st.integers(1, 2**70).map(Fraction) | st.fractions(Fraction(1, 10**9), 10**9)

TIMES = st.sampled_from((1, 2))


@given(LONG, WIDE, WIDE, WIDE, WIDTHS, TIMES)
def test_whole_numbers_lie_in_the_bins_that_their_band_touches(
    y: int, a: int, b: int, where: int, width: Fraction | None, times: int
) -> None:
    low, high = sorted((a, b))
    for axis in (EXACT, SMALL):
        p = y if axis == EXACT else max(min(y, 2**31 - 1), -(2**31))
        x = p + low + (where % (high - low + 1))
        bins = some(neighbours(Fraction(low), Fraction(high), axis, width, times=times))
        for one, other, turned in ((x, p, bins), (p, x, FixedWidthBins(bins.width, -bins.high, -bins.low))):
            if all(-(2**63) <= v < 2**63 for v in (one, other)):
                assert truncated(one, bins.width) in whole_bins(other, turned, half=halved(axis))


@given(st.sampled_from((-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1)), st.integers(0, 2**60), TIMES)
def test_the_limits_of_bigint_have_neighbours(y: int, high: int, times: int) -> None:
    for low in (0, high, -high):
        bins = some(neighbours(Fraction(low), Fraction(high), EXACT, times=times))
        for x in (y + low, y + high, 2**63 - 1, -(2**63)):
            if -(2**63) <= x < 2**63 and low <= x - y <= high:
                assert truncated(x, bins.width) in whole_bins(y, bins, half=True)


def test_a_band_as_wide_as_bigint_has_no_bins() -> None:
    assert neighbours(Fraction(-(2**61)), Fraction(0), EXACT) is None
    assert neighbours(Fraction(0), Fraction(2**80), SMALL) is None


@given(WIDE, WIDE, TIMES)
def test_a_row_is_copied_a_few_times_only(a: int, b: int, times: int) -> None:
    low, high = sorted((a, b))
    for axis in (EXACT, REAL, SMALL, FLOAT32):
        bins = some(neighbours(Fraction(low), Fraction(high), axis, times=times))
        assert bins.copies <= 3
        assert high - low < 1_000 or bins.copies < 1.2 + 1 / times


@given(
    REALS, ENDS, st.one_of(st.floats(0, 1e9), st.floats(0, 1e-9), st.floats(0, 1e300)), st.floats(0, 1), WIDTHS, TIMES
)
def test_reals_lie_in_the_bins_that_their_band_touches(
    y: float, low: float, span: float, where: float, width: Fraction | None, times: int
) -> None:
    """As Spark evaluates ``x BETWEEN y + low AND y + high``, rounding included, with bins for either side."""
    high = low + span
    first, last = y + low, y + high
    x = min(max(first + where * (last - first) if math.isfinite(last - first) else last, first), last)
    bins = neighbours(Fraction(low), Fraction(high), REAL, width, times=times)
    if max(-low, high) > EVERYTHING:
        assert bins is None
        return
    assert bins is not None
    assert real_bin(x, bins) in real_bins(y, bins)
    assert real_bin(y, bins) in real_bins(x, FixedWidthBins(bins.width, -bins.high, -bins.low))
    if not width:
        assert len(real_bins(y, bins)) <= 4


@given(REALS, ENDS, st.floats(0, 1e9), st.floats(-2, 3))
def test_reals_whose_difference_is_rounded_lie_in_them_too(y: float, low: float, span: float, where: float) -> None:
    """As Spark evaluates ``x - y BETWEEN low AND high``."""
    high = low + span
    x = y + low + where * span
    if low <= x - y <= high:
        bins = some(neighbours(Fraction(low), Fraction(high), REAL))
        assert real_bin(x, bins) in real_bins(y, bins)


def test_what_is_added_may_be_rounded_by_more_than_the_band_is_wide() -> None:
    for low in (1e15, 1e18, -1e18):
        bins = some(neighbours(Fraction(low), Fraction(low), REAL))
        for off in range(-70, 70):
            x, y = float(off), -low
            assert x - y != low or real_bin(x, bins) in real_bins(y, bins)
            assert x - y != low or real_bin(y, bins) in real_bins(x, FixedWidthBins(bins.width, -bins.high, -bins.low))


@given(st.floats(allow_nan=False, width=32), st.floats(-1e9, 1e9, width=32), st.floats(0, 1e9, width=32))
def test_floats_lie_in_the_bins_that_their_band_touches(y: float, low: float, span: float) -> None:
    """As Spark evaluates ``x BETWEEN y + low AND y + high`` in 32 bits."""
    bins = some(neighbours(Fraction(low), Fraction(low) + Fraction(span), FLOAT32))
    for x in (single(y + low), single(y + single(low + span))):
        if low <= single(low + span):
            assert real_bin(x, bins, most=MOST_BINS_FLOAT32) in real_bins(y, bins, MOST_BINS_FLOAT32)


def test_nan_and_infinity_meet_themselves() -> None:
    for low, high in ((-5, 5), (1, 2), (-7, -3), (0, 0)):
        bins = some(neighbours(Fraction(low), Fraction(high), REAL))
        for value in (math.nan, math.inf, -math.inf, 1e308, -1e308):
            assert real_bin(value, bins) in real_bins(value, bins)


def first_to_last(low: float, high: float, width: float) -> range:
    """The bins that an interval of reals touches, as Spark computes them: one when its ends are the wrong way round."""

    def bin_of(end: float) -> int:
        return math.floor(min(max(end / width, -1e15), 1e15)) if end == end else 10**15

    return range(bin_of(low), max(bin_of(low), bin_of(high)) + 1)


@given(LONG, LONG, LONG, LONG, st.integers(2, 2**63), st.booleans())
def test_intervals_that_overlap_have_their_first_common_bin(
    a: int, b: int, c: int, d: int, width: int, whole: bool
) -> None:
    """The bin where the later of them begins is one of both, whichever way round their ends are."""
    if a <= d and c <= b:
        one, other = first_to_last(a, b, width), first_to_last(c, d, width)
        if whole:
            cut = [truncated(end, Fraction(width)) for end in (a, b, c, d)]
            one, other = range(cut[0], max(cut[:2]) + 1), range(cut[2], max(cut[2:]) + 1)
        later = max(one[0], other[0])
        assert later in one
        assert later in other


@given(*[st.one_of(st.floats(), st.floats(-100, 100))] * 4, st.floats(1e-3, 1e9))
def test_so_do_intervals_of_reals(a: float, b: float, c: float, d: float, width: float) -> None:
    greater = [y if math.isnan(y) or (x <= y) else None for x, y in ((a, d), (c, b))]
    if None not in greater:  # as Spark compares: NaN is the greatest
        one, other = first_to_last(a, b, width), first_to_last(c, d, width)
        later = max(one.start, other.start)
        assert one.start <= later < one.stop
        assert other.start <= later < other.stop


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (1e-12, "1e-12"),
        (0.30000000000000004, "0.30000000000000004"),
        (-5e-324, "-5e-324"),
        (2**63 - 1, "9223372036854775807"),
        (-0.5, "-0.5"),
        (Fraction(1, 3), "0.33"),
        (Fraction(1, 10**9), "0.000000001"),
    ],
)
def test_a_number_is_printed_in_its_shortest_form(amount: Fraction | float, text: str) -> None:
    assert number(amount) == text
