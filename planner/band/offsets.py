"""Parses bands on one column of both sides as offsets from a row:  y.ts BETWEEN x.ts - 600 AND x.ts.

Values of a column lie on a grid: whole numbers, days, microseconds, units of a decimal's scale.  On it a strict end is
a closed one a step further in, so the rows are those from ``low`` to ``high`` steps away.  Only comparisons that Spark
computes exactly are read; what may round, or follows a calendar with days of 23 hours, is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, gcd

from sqlglot import exp

from dovetail.planner.band.axis import DAY, SECOND
from dovetail.planner.band.comparisons import without_abs
from dovetail.planner.band.ends import Comparison, comparisons
from dovetail.planner.band.linear import ConditionScope, Sum
from dovetail.planner.errors import Refused
from dovetail.planner.expr import parse, sql
from dovetail.planner.types.schema import SqlType, sql_type

_FARTHEST = 2**62
_UNITS = ((DAY, "DAY"), (3_600 * SECOND, "HOUR"), (60 * SECOND, "MINUTE"))


@dataclass(frozen=True)
class Offsets:
    """The rows whose value lies from ``low`` to ``high`` steps above a row's own; None is an open side."""

    low: int | None
    high: int | None
    type: SqlType

    @property
    def open(self) -> bool:
        """Whether one side has no end."""
        return self.low is None or self.high is None

    @property
    def before(self) -> Offsets:
        """The rows that come before those, from the first one on."""
        assert self.low is not None
        return Offsets(None, self.low - 1, self.type)

    @property
    def until(self) -> Offsets:
        """Those rows, and all that come before them."""
        return Offsets(None, self.high, self.type)

    def order(self, column: str, nulls: bool) -> str:
        """What a window is ordered by, so that no bound overflows; with ``nulls``, NULL lies in no row's frame.

        It is the same for these rows, and for those ``until`` their end and ``before`` them.
        """
        moved = not self.open or {self.low, self.high} - {None, 0}
        text = column
        if moved and self.type.integral:
            text = f"CAST({column} AS {'DECIMAL(20,0)' if self.type.name == 'bigint' else 'BIGINT'})"
        if self.high is None:
            return f"{text} DESC"
        return f"{text} NULLS LAST" if nulls else text

    @property
    def frame(self) -> str:
        """The RANGE frame over ``order``."""
        if self.high is None:
            return f"RANGE BETWEEN UNBOUNDED PRECEDING AND {self._bound(self.low, 'PRECEDING', 'FOLLOWING')}"
        first = self._bound(self.low, "FOLLOWING", "PRECEDING")
        return f"RANGE BETWEEN {first} AND {self._bound(self.high, 'FOLLOWING', 'PRECEDING')}"

    def _bound(self, steps: int | None, above: str, below: str) -> str:
        if steps is None:
            return "UNBOUNDED PRECEDING"
        if not steps:
            return "CURRENT ROW"
        return f"{self._length(abs(steps))} {above if steps > 0 else below}"

    def _length(self, steps: int) -> str:
        if self.type.name == "decimal":
            whole, rest = divmod(steps, 10**self.type.scale)
            return f"{whole}.{rest:0{self.type.scale}}" if self.type.scale else f"{whole}BD"
        if not self.type.name.startswith("timestamp"):
            return f"{steps}BD" if self.type.name == "bigint" else str(steps)
        both = gcd(self.low or 0, self.high or 0)  # Spark takes a frame only if its ends have one type
        for size, unit in _UNITS:
            if both % size == 0:
                return f"INTERVAL '{steps // size}' {unit}"
        seconds, rest = divmod(steps, SECOND)
        return f"INTERVAL '{seconds}{f'.{rest:06}' if rest else ''}' SECOND"


def read_offsets(trees: Iterable[exp.Expression], type_: SqlType, scope: ConditionScope) -> Offsets:
    """The offsets of ``scope``'s right side from its left one, where both are one column of this type.

    Raises ``Refused`` where the comparisons, which must all hold, are anything else.
    """
    lows: list[int] = []
    highs: list[int] = []
    for tree in trees:
        for comparison in _plain(tree):
            lower, steps = _end(comparison, type_, scope)
            (lows if lower else highs).append(steps)
    low, high = max(lows, default=None), min(highs, default=None)
    if low is not None and high is not None and low > high:
        raise Refused("no row lies within so narrow a band")
    if max(abs(low or 0), abs(high or 0)) >= _farthest(type_):
        raise Refused("its ends lie too far from the row")
    return Offsets(low, high, type_)


def _farthest(type_: SqlType) -> int:
    if type_.name == "decimal":
        return int(10 ** min(type_.precision, 18))
    return 2**31 if type_.name == "date" else _FARTHEST


def _plain(tree: exp.Expression) -> Iterator[Comparison]:
    """Every comparison, ``abs(e) <= c`` as two."""
    for small, large, strict in comparisons(tree):
        yield from ((*pair, strict) for pair in without_abs(small, large))


def _end(comparison: Comparison, type_: SqlType, scope: ConditionScope) -> tuple[bool, int]:
    """Whether a comparison is a lower end, and how many steps away."""
    small, large, strict = comparison
    sum_ = Sum(scope)
    sum_.add(small, 1)
    sum_.add(large, -1)
    sum_.finish()
    shown = f"{sql(small)} {'<' if strict else '<='} {sql(large)}"
    terms = {side: count for side, count, _ in sum_.terms.values()}
    leaves = [(parse(leaf.text), parse(leaf.key)) for *_, leaf in sum_.terms.values()]
    if set(terms) != {"left", "right"} or terms["left"] != -terms["right"] or abs(terms["left"]) != 1:
        raise Refused(f"{shown}: not a constant distance between two rows")
    if not all(isinstance(text, exp.Column) for text, _ in leaves) or len({key.name for _, key in leaves}) != 1:
        raise Refused(f"{shown}: not a distance between two values of one column")
    added = _Added(sum_, type_, shown, scope, strict, (small, large))
    lower = terms["left"] > 0
    distance = added.steps() * (1 if lower else -1)
    if lower:
        return True, floor(distance) + 1 if strict else ceil(distance)
    return False, ceil(distance) - 1 if strict else floor(distance)


@dataclass(frozen=True)
class _Added:
    """What a comparison of two values of one column adds to them: ``shown`` is the comparison, of ``trees``."""

    sum: Sum
    type: SqlType
    shown: str
    scope: ConditionScope
    strict: bool
    trees: tuple[exp.Expression, exp.Expression]

    def steps(self) -> Fraction:
        """It in steps.  Raises ``Refused`` where Spark may compute anything else."""
        amount, type_ = self.sum.amount, self.type
        if amount.spread or amount.lengths:
            raise Refused(f"{self.shown}: the distance is not the same for every row")
        mixed = "both" in map(self.scope.side, self.trees)
        moved = bool(amount.number or amount.micros or mixed)
        if type_.exact_numeric:
            return self._number(moved=moved)
        if type_.name == "date":
            days = amount.number + amount.micros / DAY
            if amount.clock or days.denominator != 1:
                raise Refused(f"{self.shown}: it adds less than a day to a date")
            return days
        if type_.name in ("timestamp", "timestamp_ntz"):
            if amount.number or amount.micros.denominator != 1:
                raise Refused(f"{self.shown}: not a whole number of microseconds")
            calendar = type_.name == "timestamp" and not self.scope.has_fixed_offset_zone
            if calendar and (mixed or amount.total_length >= DAY - 1):  # a frame may end a microsecond further
                raise Refused(f"{self.shown}: days have 23 or 25 hours now and then in this time zone")
            return amount.micros
        if str(type_) == "STRING" and not moved and not self.strict:
            return Fraction(0)
        raise Refused(f"{self.shown}: values of {type_} have no fixed step")

    def _number(self, *, moved: bool) -> Fraction:
        amount = self.sum.amount
        if amount.micros or amount.clock:
            raise Refused(f"{self.shown}: it adds a time to a number")
        if not moved:
            return Fraction(0)
        if self.type.integral and not self.scope.ansi:
            raise Refused(f"{self.shown}: sums could wrap around, since spark.sql.ansi.enabled is false")
        before, scale = self.type.digits
        for node in (node for tree in self.trees for node in tree.walk()):
            if isinstance(node, exp.Cast) and not sql_type(sql(node.to)).integral:
                raise Refused(f"{self.shown}: sums of {sql(node.to)} may round")
            if isinstance(node, exp.Literal):
                if node.is_string or not set(node.name) <= set("0123456789."):
                    raise Refused(f"{self.shown}: sums with {node.name} may round")
                whole, _, rest = node.name.partition(".")
                before, scale = max(before, len(whole)), max(scale, len(rest))
        if before + scale > 34:
            raise Refused(f"{self.shown}: its sums are longer than a DECIMAL")
        return amount.number * Fraction(10) ** self.type.scale
