"""Try forms: expressions that are NULL, or have any value, where the original raises an error.

Bins are computed on rows that the original join may never evaluate.  The *try form* of an expression has the same value
wherever the expression has one, and does not raise, as far as Spark has such functions:

    CAST(p.tag AS INT)      TRY_CAST(p.tag AS INT)
    i.lo * 2                TRY_MULTIPLY(i.lo, 2)
    ceil(p.d)               ceil(p.d), which raises on any row where it overflows

An expression is *safe* if it is its own try form and has no part without one: it never raises.  Without ANSI most of
Spark's functions return NULL or wrap around, and stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sqlglot import exp

from dovetail.planner.errors import Place, Refused
from dovetail.planner.expr import HOLE, Scalar, sql, without_parentheses
from dovetail.planner.types.literals import is_time_literal, literal_number, whole_number
from dovetail.planner.types.ranges import fits, holds, remains
from dovetail.planner.types.schema import TEMPORAL, SqlType, sql_type
from dovetail.planner.types.typed import common, infer_type

TypeOf = Callable[[exp.Expression], SqlType | None]
Original = Literal["join", "query"]

_LEAVES = (exp.Column, exp.Literal, exp.Placeholder, exp.Parameter, exp.Null, exp.Boolean)
_NOW = (exp.CurrentDate, exp.CurrentTimestamp)
_CHOICES = (exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif, exp.If, exp.Case)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Between, exp.In)
_LOGIC = (exp.And, exp.Or, exp.Not, exp.Is, exp.Paren)
_SAFE_TWINS: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.Add: exp.SafeAdd,
    exp.Sub: exp.SafeSubtract,
    exp.Mul: exp.SafeMultiply,
    exp.Div: exp.SafeDivide,
}
_OF_DAYS = (exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth, exp.DayOfWeek)
_OF_DATES = (*_OF_DAYS, exp.DayOfYear, exp.LastDay, exp.DateTrunc, exp.UnixDate)
_OF_TIMESTAMPS = (exp.UnixSeconds, exp.UnixMillis, exp.UnixMicros, exp.StrToUnix, exp.TimestampTrunc)
_OF_CLOCKS = (exp.Hour, exp.Minute, exp.Second)
_OF_STRINGS = frozenset(
    "CHARACTER_LENGTH CHAR_LENGTH CONCAT CONTAINS ENDSWITH INITCAP INSTR LENGTH LTRIM MD5 REPLACE REVERSE RTRIM SHA1 "
    "STARTSWITH SUBSTR SUBSTRING".split()
)
"""Functions that have a value for all strings, and behind the first one for all whole numbers."""


# Functions that raise on texts they cannot read, and those that return NULL.
_TRY_TWINS = {"TO_DATE": "try_to_timestamp", "TO_TIMESTAMP": "try_to_timestamp"}


class UnsafeSpeculation(Refused):
    """An expression that could raise an error, on rows on which the original join or query never evaluates it."""

    code = "may_raise"

    def __init__(self, expression: str, place: Place | None = None, original: Original = "join", why: str = ""):
        rows = f"rows that the original {original} never evaluates"
        super().__init__(f"{expression} could raise an error on {rows}{why and f', and {why}'}", place)


def try_form(tree: exp.Expression, known: TypeOf, *, ansi: bool) -> exp.Expression:
    """Return the try form of an expression as a new tree; a part that has none stays as it is."""
    return _TryForm(known, ansi).form(tree)


def can_raise(expression: Scalar | exp.Expr, known: TypeOf, *, ansi: bool) -> bool:
    """Whether an expression or a condition could raise an error on some row; ``known`` returns the types of columns.

    True also where that is unknown: for subqueries, functions without a try form, and where ``known`` raises
    ``Refused``.
    """
    try:
        tree = (expression.tree if isinstance(expression, Scalar) else expression).unalias()
        if isinstance(tree, exp.Column) and not tree.name.startswith(HOLE):
            return False
        condition = exp.If(this=tree.copy(), true=exp.Literal.number(1), false=exp.Literal.number(0))
        found = _TryForm(known, ansi)
        return sql(found.form(condition)) != sql(condition) or found.incomplete
    except Refused:
        return True


_STRING = sql_type("string")
NEGATED_DIGITS = 34
"""To so many digits Spark rounds a DECIMAL that it negates, in ``-x`` and ``abs(x)``, and raises if that overflows."""


class _TryForm:
    def __init__(self, known: TypeOf, ansi: bool):
        self.known = known
        self.ansi = ansi
        self.incomplete = False  # whether a part has no try form

    def form(self, tree: exp.Expression) -> exp.Expression:
        """Build the try form."""
        if self._is_safe(tree):
            return tree.copy()
        match tree:
            case exp.Dot() if isinstance(tree.this, exp.Dot | exp.Column):
                self.form(tree.this)
                return tree.copy()
            case exp.Cast():
                return self._cast(tree)
            case exp.Neg() | exp.Abs():
                return self._sign(tree)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
                return self._arithmetic(tree)
            case exp.SafeAdd() | exp.SafeSubtract() | exp.SafeMultiply() | exp.SafeDivide() | exp.Paren():
                return self._inside(tree)
            case exp.Mod() | exp.IntDiv():
                return self._divided(tree)
            case exp.Ceil() | exp.Floor() | exp.Round():
                return self._rounded(tree)
            case exp.TsOrDsToDate():
                return self._to_date(tree)
            case exp.Anonymous(this=str(name)) if name.upper() in _TRY_TWINS:
                return self._function(tree, _TRY_TWINS[name.upper()])
            case exp.Bracket() if len(tree.expressions) == 1 and self._is(tree.this, "array"):
                self.form(tree.this)
                return exp.Anonymous(this="get", expressions=[tree.this.copy(), tree.expressions[0].copy()])
            case exp.TsOrDsAdd() | exp.DateSub() if self._are_times(tree.this) and self._integral(tree.expression):
                return self._inside(tree)
            case exp.DateDiff() if not tree.args.get("unit") and self._are_times(tree.this, tree.expression):
                return self._inside(tree)
        if isinstance(tree, (*_OF_DATES, *_OF_TIMESTAMPS, *_OF_CLOCKS)):
            return self._of_times(tree)
        return self._choice(tree) if isinstance(tree, _CHOICES) else self._as_written(tree)

    def _is_safe(self, tree: exp.Expression) -> bool:
        """Whether a column, a literal, the current time, or a function of strings never raises as it is written."""
        match tree:
            case exp.Column():
                return not tree.name.startswith(HOLE)
            case exp.Interval():
                return isinstance(without_parentheses(tree.this), exp.Literal)
            case exp.Cast():
                return isinstance(tree.this, exp.Literal)
            case exp.Neg():
                return isinstance(tree.this, exp.Literal) or (literal_number(tree.this) or 0) > 0
            case exp.Add() | exp.Sub() | exp.Mul():
                return whole_number(tree) is not None
        return isinstance(tree, (*_LEAVES, *_NOW)) or self._has_value_for_strings(tree)

    def _as_written(self, tree: exp.Expression) -> exp.Expression:
        """A part that has no try form."""
        self.incomplete = True
        return tree.copy()

    def _function(self, tree: exp.Anonymous, name: str) -> exp.Expression:
        if not self.ansi:
            return self._as_written(tree)
        found = exp.Anonymous(this=name, expressions=[self.form(e) for e in tree.expressions])
        return (
            exp.TryCast(this=found, to=exp.DataType.build("date"), safe=True)
            if tree.name.upper() == "TO_DATE"
            else found
        )

    def _has_value_for_strings(self, tree: exp.Expression) -> bool:
        """Whether this is a string function over columns, literals and other such functions."""
        match tree:
            case exp.Upper() | exp.Lower() | exp.Trim():
                arguments = [*tree.iter_expressions()]
            case exp.Anonymous(this=str(name)) if name.upper() in _OF_STRINGS:
                arguments = tree.expressions
            case _:
                return False
        return all(
            (
                isinstance(argument, _LEAVES)
                and (self._is(argument, "string", "char") or (number > 0 and self._integral(argument)))
            )
            or self._has_value_for_strings(argument)
            for number, argument in enumerate(arguments)
        )

    def _type(self, tree: exp.Expression) -> SqlType | None:
        return infer_type(tree, self.known)

    def _is(self, tree: exp.Expression, *names: str) -> bool:
        found = self._type(tree)
        return found is not None and found.name in names

    def _are_times(self, *trees: exp.Expression) -> bool:
        return all(self._is(tree, *TEMPORAL) for tree in trees)

    def _integral(self, tree: exp.Expression) -> bool:
        found = self._type(tree)
        return found is not None and found.integral

    def _inside(self, tree: exp.Expression) -> exp.Expression:
        """Rebuild the expression over the try forms of its operands."""
        copy = tree.copy()
        for name in ("this", "expression"):
            if isinstance(inner := tree.args.get(name), exp.Expression):
                copy.set(name, self.form(inner))
        return copy

    def _cast(self, tree: exp.Cast) -> exp.Expression:
        copy = self._inside(tree)
        if tree.args.get("safe"):
            return copy
        source = self._type(tree.this)
        if source is None and not self.ansi:
            return self._as_written(tree)
        wide = infer_type(tree, self.known)
        if source and (holds(wide, source) or (source.integral and remains(tree.this, wide))):
            return copy
        if self.ansi or (source and source.temporal and infer_type(tree, self.known).temporal):  # type: ignore[union-attr]
            return exp.TryCast(this=copy.this, to=copy.args["to"], safe=True)
        return copy

    def _sign(self, tree: exp.Expression) -> exp.Expression:
        """``-x`` and ``abs(x)``, which overflow for the least integer."""
        inner, type_ = self.form(tree.this), self._type(tree.this)
        if type_ is None or not type_.numeric or (type_.name == "decimal" and type_.precision > NEGATED_DIGITS):
            return self._as_written(tree)
        if not (self.ansi and type_.integral):
            return self._inside(tree)
        negative = exp.SafeSubtract(this=exp.Literal.number(0), expression=inner)
        return exp.Greatest(this=inner.copy(), expressions=[negative]) if isinstance(tree, exp.Abs) else negative

    def _arithmetic(self, tree: exp.Expression) -> exp.Expression:
        copy = self._inside(tree)
        types = self._type(tree.this), self._type(tree.expression)
        if any(t is None or not (t.numeric or t.temporal or t.name == "interval") for t in types):
            return self._as_written(tree)
        numbers = all(t is not None and t.numeric for t in types)
        if not numbers and not isinstance(tree, exp.Add | exp.Sub):
            return self._as_written(tree)
        if numbers and (not self.ansi or fits(tree, *types)):
            return copy
        return _SAFE_TWINS[type(tree)](this=copy.this, expression=copy.expression)

    def _divided(self, tree: exp.Expression) -> exp.Expression:
        """``x DIV 5`` and ``x % 5L``: of whole numbers, the latter of any, by a number that is written down."""
        divisor, left = tree.expression, self._type(tree.this)
        if not (self._integral(tree.this) and self._integral(divisor)):
            right = self._type(divisor)
            if isinstance(tree, exp.IntDiv) or left is None or right is None or not (left.numeric and right.numeric):
                return self._as_written(tree)
        if self.ansi:
            number = literal_number(divisor)
            overflows = isinstance(tree, exp.IntDiv) and number == -1  # of the least BIGINT
            if not number or overflows:
                return self._as_written(tree)
        return self._inside(tree)

    def _rounded(self, tree: exp.Expression) -> exp.Expression:
        type_, scale = self._type(tree.this), tree.args.get("decimals")
        places = int(scale.name) if isinstance(scale, exp.Literal) else 0 if scale is None else -1
        fine = type_ is not None and type_.numeric and places >= 0 and not tree.args.get("to")
        if fine and self.ansi and type_ is not None:
            real = type_.approximate
            fine = isinstance(tree, exp.Round) if real else sum(type_.digits) + 1 + places <= 38
        if not fine:
            return self._as_written(tree)
        return self._inside(tree)

    def _to_date(self, tree: exp.Expression) -> exp.Expression:
        inner, type_ = self.form(tree.this), self._type(tree.this)
        if type_ is None or not (type_.temporal or type_.name == "string"):
            return self._as_written(tree)
        if self.ansi and type_.name == "string":
            return exp.TryCast(this=inner, to=exp.DataType.build("date"), safe=True)
        return self._inside(tree)

    def _of_times(self, tree: exp.Expression) -> exp.Expression:
        """A function of a date or a time: Spark casts other types to it, which may raise."""
        inner, is_clock = self.form(tree.this), self._is(tree.this, "timestamp", "timestamp_ntz")
        is_read = is_clock or (not isinstance(tree, _OF_CLOCKS) and self._are_times(tree.this))
        if not is_read or tree.args.get("format"):
            return self._as_written(tree)
        if isinstance(tree, _OF_TIMESTAMPS) and not is_clock:  # Spark counts a TIMESTAMP_NTZ as if in UTC
            inner = exp.TryCast(this=inner, to=exp.DataType.build(exp.DType.TIMESTAMPLTZ), safe=True)
        copy = tree.copy()
        copy.set("this", inner)
        return copy

    def _choice(self, tree: exp.Expression) -> exp.Expression:
        """One of several values: of one kind, or Spark would cast one to the type of another, which may raise."""
        copy = tree.copy()
        values = []
        for name, value in tree.args.items():
            pieces = value if isinstance(value, list) else [value]
            kept = []
            for piece in pieces:
                if not isinstance(piece, exp.Expression):
                    kept.append(piece)
                elif isinstance(tree, exp.Case) and name == "this":
                    return self._as_written(tree)
                elif isinstance(tree, exp.Case) and name == "ifs":
                    whole = self._choice(piece)
                    kept.append(whole)
                    values.append(piece.args["true"])
                elif isinstance(tree, exp.If) and name == "this":
                    kept.append(self._condition(piece))
                else:
                    kept.append(self.form(piece))
                    values.append(piece)
            copy.set(name, kept if isinstance(value, list) else kept[0])
        if not self._of_one_kind(values):
            return self._as_written(tree)
        return copy

    def _condition(self, tree: exp.Expression) -> exp.Expression:
        """Build the try form of a condition."""
        if isinstance(tree, exp.Like) and self._is(tree.this, "string", "char") and _plain_pattern(tree):
            like: exp.Expression = tree.copy()
            like.set("this", self.form(tree.this))
            return like
        if isinstance(tree, _COMPARISONS):
            parts: list[exp.Expression] = list(tree.iter_expressions())
            others = [part for part in parts if not is_time_literal(part)]
            dated = 0 < len(others) < len(parts) and self._are_times(*others)
            if not self._of_one_kind(others if dated else parts):
                return self._as_written(tree)
            compared: exp.Expression = tree.copy()
            for old, part in zip(list(compared.iter_expressions()), parts, strict=True):
                old.replace(self.form(part))
            return compared
        if not isinstance(tree, _LOGIC):
            return self.form(tree)
        logic: exp.Expression = tree.copy()
        for name in ("this", "expression"):
            if isinstance(inner := tree.args.get(name), exp.Expression):
                logic.set(name, inner.copy() if isinstance(inner, exp.Null) else self._condition(inner))
        return logic

    def _of_one_kind(self, trees: list[exp.Expression]) -> bool:
        types = (self._type(t) for t in trees if not isinstance(t, exp.Null))
        return common([_STRING if t is not None and t.name == "char" else t for t in types]) is not None


def _plain_pattern(like: exp.Expression) -> bool:
    """Whether LIKE compares with a literal in which nothing is escaped: a pattern may be wrong otherwise."""
    pattern = like.expression
    return isinstance(pattern, exp.Literal) and pattern.is_string and "\\" not in pattern.name
