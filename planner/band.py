"""The one reader of band conditions: ``p.x BETWEEN i.lo AND i.hi``, ``abs(a.x - b.y) <= 5``, ``a.ts - b.ts <= …``.

Every comparison is brought into the form  Σ ±leaf + constant ≤ 0  over real numbers; a leaf is the largest piece of
an expression that is not a sum.  One leaf on one side of the join against a sum on the other is a *bound* of that
leaf, its *point*; a lower and an upper bound of the same point are a *band*:

    DistanceBand   a.x - b.y in [-250, 250]        both ends are the same leaf and a constant
    IntervalBand   p.x between i.lo and i.hi       anything else

A band is used to prune, never to decide: it has to hold for every pair for which the condition is true, and may hold
for more.  So strict and closed bounds are the same here, and ``axis.py`` leaves room for whatever real arithmetic does
not say about Spark's (rounding, calendar days).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sqlglot import exp

from planner.axis import DAY, Axis, axis_of, interval_micros
from planner.errors import NotCarried, Place
from planner.expr import Scalar, sql
from planner.schema import SqlType

Side = Literal["left", "right"]


class NotABand(Exception):
    """A condition that looks like a band and is not one; the text says why, ``place`` where."""

    def __init__(self, reason: str, place: Place | None = None):
        super().__init__(reason)
        self.reason = reason
        self.place = place


@dataclass(frozen=True)
class Leaf:
    """A piece of an expression that is not a sum: its SQL and type."""

    text: str
    type: SqlType


@dataclass(frozen=True)
class End:
    """An end of an interval:  Σ sign·leaf + constant, in units of the axis."""

    terms: tuple[tuple[int, Leaf], ...]
    constant: Fraction = Fraction(0)

    @property
    def bare(self) -> Leaf | None:
        """The leaf, where the end is nothing but one."""
        return self.terms[0][1] if len(self.terms) == 1 and self.terms[0][0] == 1 and not self.constant else None


@dataclass(frozen=True)
class DistanceBand:
    """``left - right`` lies in [``low``, ``high``], in units of the axis."""

    left: Leaf
    right: Leaf
    low: Fraction
    high: Fraction
    axis: Axis
    conjuncts: tuple[Scalar, ...]

    def __str__(self) -> str:
        low, high = self.axis.human(self.low), self.axis.human(self.high)
        return f"{self.left.text} - {self.right.text} in [{low}, {high}]"


@dataclass(frozen=True)
class IntervalBand:
    """``point``, on ``side``, lies between ``low`` and ``high``, on the other side."""

    point: Leaf
    side: Side
    low: End
    high: End
    axis: Axis
    conjuncts: tuple[Scalar, ...]

    def __str__(self) -> str:
        return f"{self.point.text} between {self.show(self.low)} and {self.show(self.high)}"

    def show(self, end: End) -> str:
        """An end as a person would write it."""
        said = ""
        for sign, leaf in end.terms:
            said += (" + " if sign > 0 else " - ") + leaf.text if said else ("" if sign > 0 else "-") + leaf.text
        if end.constant:
            said += (" + " if end.constant > 0 else " - ") + self.axis.human(abs(end.constant))
        return said


Band = DistanceBand | IntervalBand


@dataclass(frozen=True)
class Vocabulary:
    """What the reader of bands needs to know about names: the side of a column, the type of an expression.

    ``side`` returns None for an expression without columns of either side, and raises ``NotABand`` for a column that
    cannot be placed.
    """

    side: Callable[[exp.Expression], Side | Literal["both"] | None]
    type_of: Callable[[exp.Expression], SqlType | None]
    ansi: bool
    fixed_zone: bool


@dataclass(frozen=True)
class _Bound:
    point: Leaf
    side: Side
    lower: bool
    end: End
    mixed: bool  # the user's text does arithmetic over both sides
    sum: str  # what is added up on the other side, where that is more than one leaf
    constants: frozenset[str]  # what kinds of constants are added: "number", "days", "clock"
    conjunct: Scalar


def looks_like_band(conjunct: Scalar) -> bool:
    """Whether a conjunct compares by order and so may belong to a band; cheap, and never looks anything up."""
    if not any(mark in conjunct.text for mark in "<>") and "between" not in conjunct.text.lower():
        return False
    try:
        return bool(list(_comparisons(conjunct.tree))) and len(conjunct.columns) > 1
    except NotCarried:
        return False


def is_or_of_comparisons(conjunct: Scalar) -> bool:
    """Whether a conjunct is an OR that compares by order, which no bins can follow."""
    if "or" not in conjunct.text.lower() or conjunct.plans:
        return False
    try:
        return isinstance(_bare(conjunct.tree), exp.Or) and bool(
            conjunct.tree.find(exp.Between, exp.LT, exp.LTE, exp.GT, exp.GTE)
        )
    except NotCarried:
        return False


def read_bands(conjuncts: tuple[Scalar, ...], words: Vocabulary) -> tuple[tuple[Band, ...], tuple[NotABand, ...]]:
    """Find the bands in a condition.

    Returns the bands, those of constant width first and otherwise in the order in which they are written, and a reason
    for every comparison across the join that belongs to none.
    """
    bounds: list[_Bound] = []
    refusals: list[NotABand] = []
    refused: set[Scalar] = set()
    for conjunct in conjuncts:
        if not looks_like_band(conjunct):
            continue
        for small, large in _comparisons(conjunct.tree):
            try:
                bounds += _read_bounds(small, large, conjunct, words)
            except NotABand as no:
                refusals.append(NotABand(no.reason, no.place or conjunct.place))
                refused.add(conjunct)
    bands, more = _pair(bounds, words, refused)
    return bands, (*refusals, *more)


def _comparisons(tree: exp.Expression) -> Iterator[tuple[exp.Expression, exp.Expression]]:
    """Every ``small ≤ large`` (or <) that a conjunct says, in order."""
    match tree:
        case exp.Paren():
            yield from _comparisons(tree.this)
        case exp.Between():
            yield tree.args["low"], tree.this
            yield tree.this, tree.args["high"]
        case exp.And():
            yield from _comparisons(tree.this)
            yield from _comparisons(tree.expression)
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            small, large = tree.this, tree.expression
            if isinstance(tree, exp.GT | exp.GTE):
                small, large = large, small
            inner = _bare(small)
            if isinstance(inner, exp.Abs):  # abs(e) <= c: e <= c and -c <= e
                yield inner.this, large
                yield exp.Neg(this=exp.paren(large.copy())), inner.this
            else:
                yield small, large


def _bare(tree: exp.Expression) -> exp.Expression:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _read_bounds(small: exp.Expression, large: exp.Expression, conjunct: Scalar, words: Vocabulary) -> list[_Bound]:
    """The bounds that ``small ≤ large`` puts on a leaf of either side; none when it is not across the join."""
    sum_ = _Sum(words)
    sum_.add(small, 1)
    sum_.add(large, -1)
    sides = {side for side, *_ in sum_.terms.values()}
    if not {"left", "right"} <= sides and "both" not in sides:
        return []
    for text, (side, _, leaf) in sum_.terms.items():
        if side == "both":
            raise NotABand(f"{text} mixes both sides of the join")
        if leaf.type is None:
            raise NotABand(f"the type of {text} is not known")
    mixed = "both" in (words.side(small), words.side(large))
    found = []
    for point_side, other in (("left", "right"), ("right", "left")):
        points = [(c, leaf) for side, c, leaf in sum_.terms.values() if side == point_side]
        rest = [(c, leaf) for side, c, leaf in sum_.terms.values() if side in (other, None)]
        if len(points) != 1 or abs(points[0][0]) != 1 or any(abs(c) != 1 for c, _ in rest):
            continue
        coefficient, point = points[0]
        # coefficient·point + Σ + constant ≤ 0
        end = End(tuple((-coefficient * c, leaf) for c, leaf in rest), -coefficient * sum_.constant)
        constants = frozenset(sum_.constants)
        added = " and ".join(leaf.text for _, leaf in rest) if len(rest) > 1 else ""
        found.append(_Bound(point, point_side, coefficient < 0, end, mixed, added, constants, conjunct))  # type: ignore[arg-type]
    if not found:
        raise NotABand(f"{conjunct.shown} does not bound one expression of either side")
    return found


class _Sum:
    """A sum of leaves over a common axis."""

    def __init__(self, words: Vocabulary):
        self.words = words
        self.terms: dict[str, tuple[Side | Literal["both"] | None, int, Leaf]] = {}
        self.constant = Fraction(0)
        self.constants: set[str] = set()

    def add(self, tree: exp.Expression, sign: int) -> None:
        match tree:
            case exp.Paren():
                self.add(tree.this, sign)
            case exp.Neg():
                self.add(tree.this, -sign)
            case exp.Add():
                self.add(tree.this, sign)
                self.add(tree.expression, sign)
            case exp.Sub():
                self.add(tree.this, sign)
                self.add(tree.expression, -sign)
            case exp.Interval():
                self._interval(tree, sign)
            case _ if (value := _constant(tree)) is not None:
                self.constant += sign * value
                if value:
                    self.constants.add("number")
            case _:
                self._leaf(tree, sign)

    def _interval(self, tree: exp.Interval, sign: int) -> None:
        micros = interval_micros(tree)
        if micros is None:
            raise NotABand(f"{sql(tree)} is not a day-time interval literal of fixed length")
        self.constant += sign * micros
        self.constants.add("days" if tree.args["unit"].name.upper().rstrip("S") in ("DAY", "WEEK") else "clock")

    def _leaf(self, tree: exp.Expression, sign: int) -> None:
        side = self.words.side(tree)
        if side is not None and not _safe(tree):
            raise NotABand(f"{sql(tree)} could raise an error on a row that no pair needs")
        type_ = self.words.type_of(tree)
        text = sql(tree)
        old = self.terms.get(text)
        count = sign + (old[1] if old else 0)
        if count:
            self.terms[text] = (side, count, Leaf(text, type_))  # type: ignore[arg-type]
        else:
            del self.terms[text]


def _constant(tree: exp.Expression) -> Fraction | None:
    """The value of a number literal, typed or not, or of a product of such."""
    match tree:
        case exp.Paren():
            return _constant(tree.this)
        case exp.Literal() if not tree.is_string:
            return Fraction(tree.name)
        case exp.Cast() if tree.to.is_type(*exp.DataType.NUMERIC_TYPES) and isinstance(tree.this, exp.Literal):
            try:
                return Fraction(tree.this.name)
            except ValueError:
                return None
        case exp.Mul():
            left, right = _constant(tree.this), _constant(tree.expression)
            return left * right if left is not None and right is not None else None
    return None


_SAFE = (
    exp.Column,
    exp.Dot,
    exp.Literal,
    exp.Placeholder,
    exp.Coalesce,
    exp.Greatest,
    exp.Least,
    exp.Paren,
    exp.Null,
)


def _safe(tree: exp.Expression) -> bool:
    """Whether an expression can be evaluated on any row without raising an error, and always to the same value."""
    if isinstance(tree, exp.TimestampTrunc):
        return isinstance(tree.this, exp.Column)
    if isinstance(tree, exp.Column | exp.Dot | exp.Identifier | exp.Literal):
        return True
    if isinstance(tree, exp.Cast):
        return isinstance(tree.this, exp.Literal)
    return isinstance(tree, _SAFE) and all(_safe(e) for e in tree.iter_expressions())


def _pair(
    bounds: list[_Bound], words: Vocabulary, refused: set[Scalar]
) -> tuple[tuple[Band, ...], tuple[NotABand, ...]]:
    """Put lower and upper bounds of the same point together; ``refused`` have had their reason said."""
    distances: dict[tuple[str, str], Band] = {}
    intervals: dict[tuple[Side, str], Band] = {}
    refusals: list[NotABand] = []
    used = set(refused)
    for low in (b for b in bounds if b.lower):
        for high in (b for b in bounds if not b.lower and b.side == low.side and b.point == low.point):
            conjuncts = tuple(dict.fromkeys((low.conjunct, high.conjunct)))
            try:
                axis = _axis(low, high, words)
                low_end, high_end = _in_units(low, axis, words), _in_units(high, axis, words)
            except NotABand as no:
                refusals.append(NotABand(no.reason, no.place or low.conjunct.place))
                used.update(conjuncts)
                continue
            same = len(low.end.terms) == 1 and low.end.terms == high.end.terms and low.end.terms[0][0] == 1
            if same and low.side == "left":
                leaf = low.end.terms[0][1]
                band = DistanceBand(low.point, leaf, low_end.constant, high_end.constant, axis, conjuncts)
                distances.setdefault((low.point.text, leaf.text), band)
            elif not same:
                interval = IntervalBand(low.point, low.side, low_end, high_end, axis, conjuncts)
                intervals.setdefault((low.side, low.point.text), interval)
            used.update(conjuncts)
    for b in bounds:
        if b.conjunct not in used:
            used.add(b.conjunct)
            both = {o.lower for o in bounds if o.conjunct == b.conjunct} == {True, False}
            reason = (
                f"adds up {b.sum}; a band holds one expression" if both and b.sum else "is open at one end; not a band"
            )
            refusals.append(NotABand(f"{b.conjunct.shown} {reason}", b.conjunct.place))
    return (*distances.values(), *intervals.values()), tuple(refusals)


def _axis(low: _Bound, high: _Bound, words: Vocabulary) -> Axis:
    """The axis of a point and its two ends.  Raises ``NotABand`` where real arithmetic is not a safe guide."""
    leaves = [low.point, *(leaf for b in (low, high) for _, leaf in b.end.terms)]
    arithmetic = any(b.mixed or not b.end.bare for b in (low, high))
    axis = axis_of([leaf.type for leaf in leaves], arithmetic=arithmetic, ansi=words.ansi)
    if isinstance(axis, str):
        raise NotABand(f"{low.point.text}: {axis}", low.conjunct.place)
    if axis.integral_types and not words.ansi:
        for b in (low, high):
            if not _wraps_harmlessly(b):
                raise NotABand(
                    f"{b.conjunct.shown} could wrap around, since spark.sql.ansi.enabled is false",
                    b.conjunct.place,
                )
    return axis


def _wraps_harmlessly(bound: _Bound) -> bool:
    """Without ANSI, integer sums wrap.  Outward (``hi + 5``) that only loses matches; inward it would make new ones."""
    end = bound.end
    if end.bare and not bound.mixed:
        return True
    outward = end.constant <= 0 if bound.lower else end.constant >= 0
    return not bound.mixed and len(end.terms) == 1 and end.terms[0][0] == 1 and outward


def _in_units(bound: _Bound, axis: Axis, words: Vocabulary) -> End:
    """The end of a bound with its constant in units of the axis, given room where calendar and clock differ.

    On TIMESTAMP a constant of a day or more is calendar days in the session's zone, up to 26 hours off the clock.
    """
    end, sign = bound.end, -1 if bound.lower else 1
    fits = {"number": {"number"}, "date": {"number", "days"}}.get(axis.name, {"days", "clock"})
    if not bound.constants <= fits or {"number", "days"} <= bound.constants:
        raise NotABand(f"{bound.conjunct.shown} adds what Spark does not keep on one axis", bound.conjunct.place)
    if axis.name == "date" and "days" in bound.constants:
        return End(end.terms, end.constant / DAY)
    if axis.name == "timestamp" and abs(end.constant) >= DAY and not words.fixed_zone:
        return End(end.terms, end.constant + sign * 26 * Fraction(DAY, 24))
    return end
