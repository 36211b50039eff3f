"""Expressions as sums:  Σ ±leaf + constant, where a leaf is the largest piece that is not a sum itself.

Sums are over real numbers.  Whether Spark's own arithmetic agrees with them is for ``band.py`` and ``axis.py`` to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from sqlglot import exp

from planner.axis import interval_micros
from planner.errors import Place
from planner.expr import HOLE, sql
from planner.schema import SqlType, sql_type

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

    text: str = field(compare=False)
    type: SqlType
    key: str  # the same for every way to write the same thing


@dataclass(frozen=True)
class Vocabulary:
    """What the reader of bands needs to know about names: the side of a column, the type of an expression.

    ``side`` returns None for an expression without columns of either side, and raises ``NotABand`` for a column that
    cannot be placed.  ``canonical`` returns one text for every way to write the same expression.
    """

    side: Callable[[exp.Expression], Side | Literal["both"] | None]
    type_of: Callable[[exp.Expression], SqlType | None]
    canonical: Callable[[exp.Expression], str]
    ansi: bool
    fixed_zone: bool


class Sum:
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
        unit = tree.args["unit"]
        whole = isinstance(unit, exp.Var) and unit.name.upper().removesuffix("S") in ("DAY", "WEEK")
        self.constants.add("days" if whole else "clock")

    def _leaf(self, tree: exp.Expression, sign: int) -> None:
        side = self.words.side(tree)
        if tree.find(exp.Column) and any(c.name.startswith(HOLE) for c in tree.find_all(exp.Column)):
            raise NotABand("a subquery stands in it")
        if not _safe(tree):
            raise NotABand("it computes more than a sum, which could raise an error on a row that no pair needs")
        key = self.words.canonical(tree)
        old = self.terms.get(key)
        count = sign + (old[1] if old else 0)
        if count:
            self.terms[key] = (side, count, old[2] if old else Leaf(sql(tree), self.words.type_of(tree), key))  # type: ignore[arg-type]
        else:
            del self.terms[key]


def _constant(tree: exp.Expression) -> Fraction | None:
    """The value of a number literal, typed or not, or of a product of such."""
    match tree:
        case exp.Paren():
            return _constant(tree.this)
        case exp.Literal() if not tree.is_string:
            return Fraction(tree.name)
        case exp.Cast() if isinstance(tree.this, exp.Literal):
            return _typed_constant(tree.this.name, sql_type(tree.to.sql(dialect="spark")))
        case exp.Mul():
            left, right = _constant(tree.this), _constant(tree.expression)
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
    exp.CurrentDate,
    exp.CurrentTimestamp,
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
