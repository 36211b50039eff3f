"""Expressions as sums:  Σ ±leaf + constant, where a leaf is the largest piece that is not a sum itself.

Sums are over real numbers; ``condition.py`` and ``axis.py`` decide whether Spark's own arithmetic agrees with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from sqlglot import exp

from dovetail.planner.band.axis import DAY
from dovetail.planner.band.counted_times import CountedTime, counted_time
from dovetail.planner.band.lengths import (
    Length,
    by_the_clock,
    cast_length,
    counted_lengths,
    interval_length,
    interval_of,
    months,
)
from dovetail.planner.conditions.compared import Comparison
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql, without_parentheses
from dovetail.planner.expr.calls import volatile
from dovetail.planner.expr.printing import holds_together
from dovetail.planner.types.schema import SqlType, sql_type
from dovetail.planner.types.try_expressions import UnsafeSpeculation, can_raise, try_form
from dovetail.planner.types.typed import infer_type

Side = Literal["left", "right"]
UNKNOWN = SqlType("unknown")


@dataclass(frozen=True)
class Leaf:
    """A piece of an expression that is not a sum: its SQL and type.

    ``computed``: the piece as written, where it calls a user's function, which is computed once a row.
    ``counts_seconds``: it is the BIGINT of seconds or milliseconds since 1970, so that no sum of some wraps around.
    """

    text: str = field(compare=False)
    type: SqlType
    key: str  # the same for every way to write the same thing
    computed: str = field(default="", compare=False)
    counts_seconds: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class ConditionScope:
    """What the reader of bands needs to know about names: the side of a column, the type of an expression.

    ``side`` returns None for an expression without columns of either side, and raises ``Refused`` for a column that
    cannot be placed.  ``canonical`` returns one text for every way to write the same expression.  ``volatile_call``
    returns the first call that may be volatile.  ``guards``: the conjuncts in front of the one that is read.
    ``by_times``: a time is read in the place of a call that counts it (``counted_times.py``).
    """

    side: Callable[[exp.Expression], Side | Literal["both"] | None]
    type_of: Callable[[exp.Expression], SqlType | None]
    canonical: Callable[[exp.Expression], str]
    ansi: bool
    has_fixed_offset_zone: bool
    volatile_call: Callable[[exp.Expression], exp.Expr | None] = volatile
    guards: tuple[Scalar, ...] = ()
    by_times: bool = False

    def order_by_side(self, one: exp.Expression, other: exp.Expression) -> tuple[exp.Expression, exp.Expression] | None:
        """Return the expression over the left side, then the one over the right side; None if they are others."""
        ends = {self.side(one): one, self.side(other): other}
        return (ends["left"], ends["right"]) if set(ends) == {"left", "right"} else None

    def compare_sides(self, comparison: Comparison) -> Comparison | None:
        """Return the comparison with its operand over the left side first; None unless it compares both sides."""
        ends = self.order_by_side(*comparison.operands)
        return ends and (comparison if ends[0] is comparison.left else comparison.turned)


@dataclass(frozen=True)
class Amount:
    """What a sum adds to its leaves: numbers, and lengths of time in microseconds.

    ``spread``: how far the true length may lie from ``micros``, since months differ.  ``total_length``: the constant
    lengths without their signs.  ``clock``: not whole days alone, so that Spark makes a DATE a TIMESTAMP.  ``lengths``:
    whether lengths of time that differ from row to row are added, too.
    """

    number: Fraction = Fraction(0)
    micros: Fraction = Fraction(0)
    spread: Fraction = Fraction(0)
    total_length: Fraction = Fraction(0)
    clock: bool = False
    lengths: bool = False

    def plus(self, other: Amount, sign: int) -> Amount:
        """The sum of both."""
        return Amount(
            self.number + sign * other.number,
            self.micros + sign * other.micros,
            self.spread + other.spread,
            self.total_length + other.total_length,
            self.clock or other.clock,
            self.lengths or other.lengths,
        )


_MOST_DAYS = 2**30


class Sum:
    """A sum of leaves over a common axis."""

    def __init__(self, scope: ConditionScope):
        self.scope = scope
        self.terms: dict[str, tuple[Side | Literal["both"] | None, int, Leaf]] = {}
        self.amount = Amount()
        self._unit: Fraction | None = None  # in which differences of times are counted
        self._counts = 0  # of times, with their signs
        self.counts_times = False

    def add(self, tree: exp.Expression, sign: int, *, whole: bool = False) -> None:
        """Add ``sign`` times an expression, as one leaf if ``whole``.  Raises ``Refused``."""
        match tree:
            case _ if whole:
                self._add_leaf(without_parentheses(tree), sign)
            case _ if self.scope.by_times and (counted := counted_time(tree, self.scope.type_of, ansi=self.scope.ansi)):
                self._add_counted(counted, sign)
            case exp.Paren():
                self.add(tree.this, sign)
            case exp.Neg():
                self.add(tree.this, -sign)
            case exp.TsOrDsAdd() | exp.DateSub() | exp.Add() | exp.Sub() if self._may_wrap(tree):
                self._add_leaf(tree, sign)
            case exp.Add() | exp.SafeAdd():
                self.add(tree.this, sign)
                self.add(tree.expression, sign)
            case exp.Sub() | exp.SafeSubtract():
                self.add(tree.this, sign)
                self.add(tree.expression, -sign)
            case exp.Interval():
                self._add_length(tree, interval_length(tree), sign)
            case exp.Cast() if (length := cast_length(tree)) is not None:
                self._add_length(tree, length, sign)
            case exp.TsOrDsAdd() | exp.DateSub():
                self._add_date(tree.this, sign)
                self.add(tree.expression, sign if isinstance(tree, exp.TsOrDsAdd) else -sign)
            case exp.AddMonths() if (value := constant(tree.expression)) is not None:
                self._add_date(tree.this, sign)
                self._add_length(tree, months(value), sign)
            case exp.TimestampAdd() if tree.unit is not None:
                self.add(tree.this, sign)
                self._add_lengths(tree, tree.expression, by_the_clock(interval_of("1", tree.unit.name)), sign)
            case exp.DateDiff() if not tree.args.get("unit"):
                self._add_date(tree.this, sign)
                self._add_date(tree.expression, -sign)
            case exp.DateDiff() | exp.TimestampDiff():
                self._add_difference(tree, sign)
            case exp.Mul() | exp.MakeInterval() | exp.Anonymous() if (lengths := counted_lengths(tree)) is not None:
                for each, count in lengths:
                    self._add_lengths(tree, count, each, sign)
            case _ if (value := constant(tree)) is not None:
                self.amount = self.amount.plus(Amount(number=value), sign)
            case _:
                self._add_leaf(tree, sign)

    def finish(self) -> None:
        """Turn numbers into lengths of time, where differences of times are counted in a unit."""
        if self._counts:
            raise Refused("it counts a time since 1970, and compares it with no other")
        if self._unit is not None:
            for side, count, leaf in tuple(self.terms.values()) if self.counts_times else ():
                if leaf.type.numeric:
                    self._add_term(side, -count, leaf)
                    self._add_micros(side, count, leaf.text, self._unit)
            micros = self.amount.micros + self.amount.number * self._unit
            self.amount = replace(self.amount, number=Fraction(0), micros=micros)

    def _may_wrap(self, tree: exp.Expression) -> bool:
        """Whether a date is moved by so many days that Spark's count of days may wrap around, which no sum does."""
        days = [e for e in (tree.this, tree.expression) if not isinstance(e, exp.Interval)]
        known = [value for e in days if (value := constant(e)) is not None]
        if len(days) < 2 or (known and abs(known[0]) < _MOST_DAYS):
            return False
        if isinstance(tree, exp.TsOrDsAdd | exp.DateSub):
            return True
        try:
            types = [infer_type(e, self.scope.type_of) for e in days]
        except Refused:  # its leaves have the reason
            return False
        return any(t and t.name == "date" for t in types) and any(t and t.numeric for t in types)

    def _add_length(self, tree: exp.Expression, length: Length | None, sign: int) -> None:
        if length is None:
            raise Refused(f"the length of {sql(tree)} is not known")
        amount = Amount(
            micros=length.micros, spread=length.spread, total_length=abs(length.micros), clock=not length.whole_days
        )
        self.amount = self.amount.plus(amount, sign)

    def _add_date(self, tree: exp.Expression, sign: int) -> None:
        """The date that Spark makes of an argument where it needs one."""
        found = infer_type(tree, self.scope.type_of)
        if found is None or not found.temporal:
            raise Refused(f"{sql(tree)} is no date; Spark would cast it")
        self.add(tree if found.name == "date" else exp.cast(tree.copy(), "date"), sign)

    def _add_lengths(self, tree: exp.Expression, count: exp.Expression, each: Length | None, sign: int) -> None:
        """``count`` lengths of time: a constant, or so many on each row."""
        value = constant(count)
        if each is None:
            raise Refused(f"the length of {sql(tree)} is not known")
        if value is not None:
            self._add_length(tree, each.times(value), sign)
            return
        if each.spread:
            raise Refused(f"{sql(tree)} adds months, of which every row has its own number")
        found = infer_type(count, self.scope.type_of)
        if found is None or not found.numeric:
            raise Refused(f"the type of {sql(count)} is not known")
        tried = sql(speculative(count, self.scope))
        self._add_micros(self.scope.side(count), sign, tried, each.micros)
        rounding = Fraction(1)  # Spark's own, to whole microseconds
        self.amount = self.amount.plus(Amount(spread=rounding, clock=not each.whole_days, lengths=True), 1)

    def _add_micros(self, side: Side | Literal["both"] | None, sign: int, count: str, each: Fraction) -> None:
        """So many lengths of time, as a leaf of microseconds."""
        text = f"(CAST({count} AS DOUBLE) * {float(each)!r}D)"
        self._add_term(side, sign, Leaf(text, SqlType("micros"), f"{text} micros"))

    def _add_counted(self, counted: CountedTime, sign: int) -> None:
        """The time whose whole units since 1970 are in the sum: it is less than a unit greater than these."""
        self._count_in(counted.unit)
        self._counts += 0 if counted.is_date else sign
        self.counts_times = True
        room = counted.unit if sign > 0 else Fraction(0)
        days = Fraction(DAY) if counted.is_date else Fraction(0)
        self.amount = self.amount.plus(Amount(spread=room + counted.rounding, total_length=days, clock=True), 1)
        self.add(counted.time, sign)

    def _count_in(self, unit: Fraction) -> None:
        if self._unit not in (None, unit):
            raise Refused("it counts differences of times in several units")
        self._unit = unit

    def _add_difference(self, tree: exp.Expression, sign: int) -> None:
        """``timestampdiff(MINUTE, a, b)`` counts whole minutes of local time, so a minute is lost at either end."""
        unit = tree.args["unit"].name
        each = interval_of("1", unit)
        if each is None or each.spread:
            raise Refused(f"{sql(tree)} counts what has no fixed length")
        self._count_in(each.micros)
        for part, way in ((tree.this, sign), (tree.expression, -sign)):
            found = infer_type(part, self.scope.type_of)
            if found is None or found.name not in ("date", "timestamp"):
                raise Refused(f"{sql(part)} is no TIMESTAMP; Spark would cast it")
            self.add(part, way)
        self.amount = self.amount.plus(Amount(spread=each.micros, total_length=Fraction(DAY), clock=True), 1)

    def _add_leaf(self, tree: exp.Expression, sign: int) -> None:
        leaf = leaf_of(tree, self.scope)
        if leaf.type.name == "interval":
            self.amount = self.amount.plus(Amount(clock=True, lengths=True), 1)
        self._add_term(self.scope.side(tree), sign, leaf)

    def _add_term(self, side: Side | Literal["both"] | None, sign: int, leaf: Leaf) -> None:
        old = self.terms.get(leaf.key)
        count = sign + (old[1] if old else 0)
        if count:
            self.terms[leaf.key] = (side, count, old[2] if old else leaf)
        else:
            del self.terms[leaf.key]


def leaf_of(tree: exp.Expression, scope: ConditionScope) -> Leaf:
    """An expression as one leaf.  Raises ``Refused`` where it cannot be computed for a row of one side."""
    key = scope.canonical(tree)
    if scope.side(tree) == "both":  # never computed
        return Leaf(sql(tree), UNKNOWN, key)
    tried = speculative(tree, scope)
    text = sql(tried) if holds_together(tried) else f"({sql(tried)})"
    type_ = infer_type(tree, scope.type_of) or UNKNOWN
    counted = counted_time(tree, scope.type_of, ansi=scope.ansi) if type_.name == "bigint" else None
    seconds = counted is not None and counted.unit >= 1_000  # microseconds
    return Leaf(text, type_, key, sql(tree) if volatile(tree) else "", seconds)


def speculative(tree: exp.Expression, scope: ConditionScope) -> exp.Expression:
    """Return an expression over one side as bins compute it, for any row of the side.

    It is the try form.  Where that may raise, the conditions of the same side that stand in front of it are its guards.
    Raises ``Refused`` for an expression that is volatile, or has a guard that cannot be evaluated twice.
    """
    if call := scope.volatile_call(tree):
        raise Refused(f"{sql(call)} is not known to be deterministic")
    tried = try_form(tree, scope.type_of, ansi=scope.ansi)
    if not can_raise(tried, scope.type_of, ansi=scope.ansi):
        return tried
    side = scope.side(tree)
    guards = [guard for guard in scope.guards if side and scope.side(guard.tree) == side]
    for guard in guards:
        if guard.plans or scope.volatile_call(guard.tree):
            raise UnsafeSpeculation(sql(tree), guard.place, why=f"{guard.shown} cannot be evaluated before it")
    if not guards:
        return tried
    condition = exp.and_(*(guard.tree.copy() for guard in guards), copy=False)
    return exp.Case(ifs=[exp.If(this=condition, true=tried)])


def constant(tree: exp.Expression) -> Fraction | None:
    """The value of a number literal, typed or not, or of a product of such."""
    match tree:
        case exp.Paren():
            return constant(tree.this)
        case exp.Neg():
            value = constant(tree.this)
            return None if value is None else -value
        case exp.Literal() if not tree.is_string:
            return Fraction(tree.name)
        case exp.Cast() if isinstance(tree.this, exp.Literal):
            return _typed_constant(tree.this.name, sql_type(sql(tree.to)))
        case exp.Mul():
            left, right = constant(tree.this), constant(tree.expression)
            return left * right if left is not None and right is not None else None
    return None


def _typed_constant(text: str, type_: SqlType) -> Fraction | None:
    """The value of a literal with a type, where the type holds it exactly."""
    try:
        value = Fraction(text.strip())
    except ValueError:
        return None
    fits = value.denominator == 1 or type_.name == "double"
    if type_.name == "decimal":
        fits = (value * 10**type_.scale).denominator == 1
    return value if fits and type_.numeric else None
