"""Computes the width of bins and the number of their levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import ceil, floor, inf, log2

from dovetail.planner.band.axis import Axis, real
from dovetail.planner.catalog.cost import ROW_IN_PAIRS
from dovetail.planner.catalog.stats import LengthClass

# Beyond this many bins from zero a bin's number is no longer exact enough to be trusted; all further values share one.
MOST_BINS = 2**46
MOST_BINS_FLOAT32 = 2**19
MARGIN = Fraction(1, 8)
FARTHEST = 2**60  # what may be added to half a BIGINT
EVERYTHING = 1e300  # the width of bins for intervals that are as long as this or longer: they end nowhere
_NARROWEST = Fraction(1, 10**290)  # a width that DOUBLE divides by
_SINGLE_BIN_WIDTH = 8 / 7  # the least width of bins that hold an interval each, in lengths of the longest one
GENERIC_MAX_BINS = 64
_FEW_POINTS = 8
_LONGEST = {"date": 2.0**23}
_SHORTEST = 2.0**-12  # the narrowest bins on an axis of real numbers
_LEVEL = 8.0  # what a level costs a point, in candidates looked at


@dataclass(frozen=True)
class FixedWidthBins:
    """Bins for a band of constant width: ``left - right`` lies in [``low``, ``high``], room for rounding included.

    A row of one side lies in one bin; one of the other goes to all that its band touches.  All in units of the axis.
    """

    width: Fraction
    low: Fraction
    high: Fraction

    @property
    def copies(self) -> float:
        """How many copies of a row are made on average."""
        return real(1 + (self.high - self.low) / self.width)


def neighbours(
    low: Fraction, high: Fraction, axis: Axis, width: Fraction | None = None, *, times: int = 1
) -> FixedWidthBins | None:
    """Choose bins for ``left - right in [low, high]``; ``width`` is the width in a hint.  None if no bins are possible.

    Bins as wide as the band make two copies of a row, and a row meets twice its matches.  Where rows are sorted, bins
    ``times`` as wide are better: a copy costs more than a look at the next row.  Looked up in hash tables, bins of half
    and twice the band's width were measured to be no better.

    Positions on exact axes are cut by integer division.  Those that fill BIGINT are halved first, so that the ends of a
    band can be added to them (``halved``): halves are off by less than one, so one is left at either end.  On other
    axes an eighth of a bin covers the rounding of Spark's arithmetic and ours: up to seven roundings by 2⁻⁵³ of twice
    ``MOST_BINS``, and what is added is rounded in proportion to itself, so bins are not much narrower than that.
    """
    farthest = max(-low, high)
    if farthest > (FARTHEST if axis.exact else EVERYTHING):
        return None
    if halved(axis):
        half = min(max(ceil((width or times * max(high - low, Fraction(16))) / 2), 1), FARTHEST)
        return FixedWidthBins(Fraction(2 * half), Fraction(2 * floor(low / 2) - 2), Fraction(2 * ceil(high / 2) + 2))
    if axis.exact:
        low, high = Fraction(floor(low)), Fraction(ceil(high))
        return FixedWidthBins(Fraction(min(max(ceil(width or times * (high - low)), 2), FARTHEST)), low, high)
    slack = farthest / (2**21 if axis.float32 else 2**50)
    width = max(width or times * (high - low) * Fraction(5, 4) or Fraction(1), 2 * slack / MARGIN, _NARROWEST)
    width = min(width, Fraction(EVERYTHING) * 16)
    return FixedWidthBins(width, low - MARGIN * width, high + MARGIN * width)


def hinted_width(width: Fraction, axis: Axis) -> float:
    """Return the width of bins that a hint sets, clamped to widths by which positions can be divided.

    Positions on exact axes are whole numbers: bins that are narrower than two of them separate no more positions,
    and their numbers are beyond BIGINT.
    """
    return real(min(max(width, Fraction(2) if axis.exact else _NARROWEST), Fraction(EVERYTHING)))


def halved(axis: Axis) -> bool:
    """Whether positions are halved before anything is added to them: where they fill BIGINT."""
    return axis.exact and not axis.small


@dataclass(frozen=True)
class Levels:
    """Bins for intervals of mixed length, on levels of growing ``widths``.

    An interval is assigned to the narrowest level on which it is at most ``max_bins`` bin widths long, and to the last
    level if it is longer than that on all of them.  A point is looked up once on every level.
    """

    widths: tuple[float, ...]
    max_bins: int


def levels(classes: tuple[LengthClass, ...], axis: Axis, *, spread: float, max_bins: int) -> Levels:
    """Choose levels from measured lengths.

    A level's bins are as wide as its intervals are long on average: then there are at most two copies of an interval on
    average, and a point is compared with about twice as many intervals as contain it.  A level is split while its mean
    is more than ``spread`` times its median, or its longest interval more than ``max_bins`` bins long.
    """
    finite = [c for c in classes if c.longest < EVERYTHING]
    widths = tuple(dict.fromkeys(_widths(finite, _least(axis), spread, max_bins))) or ((1.0,) if finite else ())
    if len(finite) < len(classes) or not widths:
        widths = (*widths, EVERYTHING)
    return Levels(widths, max_bins)


def unmeasured_levels(axis: Axis, max_bins: int) -> Levels:
    """Levels for lengths that were not measured: at most five, since every level costs a lookup for each point."""
    if axis.exact:
        top = {"date": 2.0**23, "number": 2.0**36 if axis.small else 2.0**64}.get(axis.name, 2.0**64)
        step = 2.0**12
    else:
        top, step = EVERYTHING, 2.0**12
    start = _least(axis) if axis.exact else 2.0**-12
    widths = [start]
    while widths[-1] * max_bins < top and len(widths) < 4:
        widths.append(widths[-1] * step)
    return Levels((*widths, EVERYTHING), max_bins)


def generic_levels(axis: Axis) -> Levels:
    """Levels for intervals of any length, for plans that depend on no measured data.

    An interval is copied to ``GENERIC_MAX_BINS`` + 1 bins at most.
    """
    top = _LONGEST.get(axis.name, 2.0**64)
    if axis.name == "number" and axis.small:
        top = 2.0**36
    widths = [_least(axis) or _SHORTEST]
    while widths[-1] * GENERIC_MAX_BINS < top:
        widths.append(widths[-1] * GENERIC_MAX_BINS)
    return Levels((*widths, EVERYTHING), GENERIC_MAX_BINS)


def levels_from_density(axis: Axis, span: float, points: int) -> Levels:
    """Levels for lengths that are not known, from the density of ``points`` on a ``span`` of the line.

    Bins narrower than the distance of a few points exclude no more pairs, and no bin has to be wider than the span.
    """
    widths = [min(max(_round(span / points * _FEW_POINTS), _least(axis), _SHORTEST), EVERYTHING / GENERIC_MAX_BINS)]
    while widths[-1] * GENERIC_MAX_BINS < min(span, EVERYTHING / GENERIC_MAX_BINS):
        widths.append(widths[-1] * GENERIC_MAX_BINS)
    return Levels((*widths, EVERYTHING), GENERIC_MAX_BINS)


_MOST_MEANS = 8.0  # so many times the mean length the bins of one level for all may be wide


def one_level(classes: tuple[LengthClass, ...], axis: Axis, *, max_bins: int) -> Levels | None:
    """One level for all, where its bins need not be wider than ``_MOST_MEANS`` times the mean length; else None.

    With bins as wide as the mean length there are at most two copies for each interval, whatever the lengths; bins
    are wider only so that the longest interval has at most ``max_bins`` of them.
    """
    count = sum(c.count for c in classes)
    if not count or not classes[-1].longest < EVERYTHING:
        return None
    mean = max(_mean(classes), _least(axis))
    width = max(mean, classes[-1].longest / max_bins)
    return Levels((_round(width) or 1.0,), max_bins) if width <= _MOST_MEANS * mean else None


def single_bin_levels(classes: tuple[LengthClass, ...], axis: Axis) -> Levels:
    """Choose levels for intervals that are in a single bin each and points that visit two bins of every level.

    Every further level costs each point two visits; with too few, short intervals share bins with many others.  The
    last level takes everything, since the measured data may change before the query runs.
    """
    finite = [c for c in classes if c.longest < EVERYTHING]
    spans = _spans(finite)
    best: list[tuple[float, tuple[float, ...]]] = [(0.0, ())]  # for the first n classes: cost for a point, widths
    for n in range(1, len(finite) + 1):
        width = max(finite[n - 1].longest, _least(axis) / 2) * _SINGLE_BIN_WIDTH
        each = [_sharing_a_bin(c, width, span) for c, span in zip(finite[:n], spans[:n], strict=True)]
        met_here = list(accumulate(reversed(each)))
        tries = ((best[n - m][0] + _LEVEL + 2 * met_here[m - 1], best[n - m][1]) for m in range(1, n + 1))
        cost, widths = min(tries)
        best.append((cost, (*widths, _round_up(width))))
    # What has no length fits any level, and nothing can be divided by its width.
    chosen = [w for w in dict.fromkeys(best[-1][1]) if w > 0] or [1.0]
    return Levels((*chosen, EVERYTHING), 1)


def levels_from(
    width: float, classes: tuple[LengthClass, ...] | None, axis: Axis, *, max_bins: int, generic_plan: bool = False
) -> Levels:
    """Levels that begin with the width in a hint, and continue for intervals longer than ``max_bins`` such bins."""
    if generic_plan:
        found = generic_levels(axis)
        return Levels((width, *(w for w in found.widths if w > width)), found.max_bins)
    if classes is None:
        wider = unmeasured_levels(axis, max_bins).widths
    else:
        wider = levels(
            tuple(c for c in classes if c.longest > width * max_bins), axis, spread=inf, max_bins=max_bins
        ).widths
        if all(c.longest <= width * max_bins for c in classes):
            wider = ()
    return Levels((width, *(w for w in wider if w > width)), max_bins)


@dataclass(frozen=True)
class Common:
    """One width of bins for two sides of intervals: their rows with all copies, and the pairs that share a bin."""

    width: float
    rows: tuple[float, ...]
    pairs: float


def common_bins(
    ones: tuple[LengthClass, ...],
    others: tuple[LengthClass, ...],
    axis: Axis,
    *,
    max_bins: int,
    width: float | None = None,
) -> Common | None:
    """Choose bins that both sides are copied to; None where none suit, since some intervals are too long for them.

    ``width``: that of a hint or an option.  Wider bins make fewer copies and more
    pairs; widths are tried by powers of two.
    """
    both = (*ones, *others)
    first, last = min((c.first for c in both), default=0.0), max((c.last for c in both), default=0.0)
    span = last - first  # infinite where intervals begin or end nowhere
    if not 0 < span < inf or not all(c.longest < EVERYTHING for c in both):
        return None
    longest = max(c.longest for c in both)
    least = max(_least(axis), longest / max_bins, max(-first, last, span) / MOST_BINS, float(_NARROWEST))
    tries = [width] if width else [_round_up(least * 2.0**n) for n in range(ceil(log2(max(span / least, 1))) + 1)]
    if axis.exact:
        tries = [float(ceil(w)) for w in tries]
    spans = _spans(ones, span), _spans(others, span)
    found = [_common(w, ones, others, spans) for w in tries if least <= w < EVERYTHING]
    return min(found, key=lambda c: sum(c.rows) * ROW_IN_PAIRS + c.pairs, default=None)


def _common(
    width: float,
    ones: tuple[LengthClass, ...],
    others: tuple[LengthClass, ...],
    spans: tuple[list[float], list[float]],
) -> Common:
    """Estimate the rows of both sides with their copies, and the pairs that share a bin, for evenly spread classes."""
    rows = [[c.count + c.total / width for c in side] for side in (ones, others)]
    pairs = sum(
        n * m * min(1.0, width / max(s, t))
        for n, s in zip(rows[0], spans[0], strict=True)
        for m, t in zip(rows[1], spans[1], strict=True)
    )
    return Common(width, (sum(rows[0]), sum(rows[1])), pairs)


def _spans(classes: Sequence[LengthClass], whole: float | None = None) -> list[float]:
    """How much of the line the intervals of each class lie on: a few that lie far out do not spread the others out.

    The ends of a few rows lie closer together than the line that they are from is long.
    """
    if whole is None:
        whole = max((c.last for c in classes), default=0.0) - min((c.first for c in classes), default=0.0)
    found = []
    for c in classes:
        own = (c.last - c.first) * (c.count + 1) / (c.count - 1) if c.count > 1 else whole
        found.append(own if 0 < own < whole else whole)
    return found


def _sharing_a_bin(c: LengthClass, width: float, span: float) -> float:
    """Estimate the number of intervals of a class that share a bin with a point.

    ``width``: how much of the line one of these intervals and its bins cover together.
    """
    return c.count * min(1.0, width / span) if 0 < span < inf else 0.0


def touched(levels_: Levels, classes: tuple[LengthClass, ...]) -> float:
    """To how many bins an interval is copied on average."""
    count = sum(c.count for c in classes) or 1
    placed = _placed(levels_, classes)
    return (
        sum(c.count + min(c.total / width, 2.0 * c.count if width >= EVERYTHING else inf) for c, width in placed)
        / count
    )


def met(levels_: Levels, classes: tuple[LengthClass, ...], *, single_bin: bool = False) -> float | None:
    """Estimate how many intervals share a bin with a point on average, if both are spread evenly; None if unknown.

    ``single_bin``: intervals are in one bin, and the point visits two.  An interval without an end shares a bin with
    every point.
    """
    finite = [c for c in classes if c.longest < EVERYTHING]
    spans, endless = _spans(finite), sum(c.count for c in classes) - sum(c.count for c in finite)
    if not any(0 < span < inf for span in spans):
        return float(endless) if endless and not finite else None
    placed = _placed(levels_, tuple(finite), fill=1 / _SINGLE_BIN_WIDTH if single_bin else levels_.max_bins)
    return endless + sum(
        _sharing_a_bin(c, 2 * width if single_bin else width + c.total / max(c.count, 1), span)
        for (c, width), span in zip(placed, spans, strict=True)
    )


def _placed(
    levels_: Levels, classes: tuple[LengthClass, ...], fill: float | None = None
) -> list[tuple[LengthClass, float]]:
    """Every class with the width of the bins on its level."""
    fill = levels_.max_bins if fill is None else fill
    *narrow, widest = levels_.widths
    return [(c, next((w for w in narrow if c.longest <= w * fill), widest)) for c in classes]


def _least(axis: Axis) -> float:
    return 2.0 if axis.exact else 0.0


def _widths(classes: list[LengthClass], least: float, spread: float, max_bins: int) -> list[float]:
    """Widths for intervals of these classes, which come in order of length."""
    count = sum(c.count for c in classes)
    if not count:
        return []
    width = max(_mean(classes), least)
    if width == 0:  # all of no length: any width suits
        return []
    if len(classes) > 1 and (
        width > spread * max(_median(classes), least, 5e-324) or classes[-1].longest > max_bins * width
    ):
        cut = min(range(1, len(classes)), key=lambda n: max(_skew(classes[:n], least), _skew(classes[n:], least)))
        return [*_widths(classes[:cut], least, spread, max_bins), *_widths(classes[cut:], least, spread, max_bins)]
    return [_round(width)]


def _skew(classes: list[LengthClass], least: float) -> float:
    mean = _mean(classes)
    median = max(_median(classes), least)
    return mean / median if median else (inf if mean else 1.0)


def _mean(classes: Sequence[LengthClass]) -> float:
    """The mean length; no greater than the longest, where the sum of all is beyond DOUBLE."""
    count = max(1, sum(c.count for c in classes))
    return min(sum(c.total / count for c in classes), max((c.longest for c in classes), default=0.0))


def _median(classes: list[LengthClass]) -> float:
    sums = list(accumulate(c.count for c in classes))
    middle = next(c for c, s in zip(classes, sums, strict=True) if 2 * s >= sums[-1])
    return middle.total / middle.count if middle.count else 0.0


def _round(width: float) -> float:
    """A width with two digits, so that a plan can be read."""
    return float(f"{width:.1e}")


def _round_up(width: float) -> float:
    """The same, and no less than the width."""
    rounded = _round(width)
    return rounded if rounded >= width else _round(width * 1.06)
