"""Expressions that may be computed on every row.

Bins are computed for rows that no pair needs, where the expression as written might raise.  Its *trying form* has the
same value wherever that one has a value, and is NULL (or anything) where that one raises:

    CAST(p.tag AS INT)      TRY_CAST(p.tag AS INT)
    i.lo * 2                TRY_MULTIPLY(i.lo, 2)

Without ANSI most of Spark's functions give NULL, or wrap around, and are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.expr import HOLE, sql
from planner.types.schema import INTEGRAL, SqlType
from planner.types.typed import TIMES, common, type_of

TypeOf = Callable[[exp.Expression], SqlType | None]

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


class MightRaise(Exception):
    """A piece of an expression that has no trying form."""

    def __init__(self, piece: exp.Expression):
        super().__init__(f"{sql(piece)} could raise an error on a row that no pair needs")


def trying(tree: exp.Expression, known: TypeOf, *, ansi: bool) -> exp.Expression:
    """The trying form of an expression, as a tree of its own.  Raises ``MightRaise``."""
    return _Trying(known, ansi).form(tree)


def may_raise(tree: exp.Expression, known: TypeOf, *, ansi: bool) -> str | None:
    """Why a condition or value might raise an error on some row; None where it certainly has a value on each."""
    whole = exp.If(this=tree.copy(), true=exp.Literal.number(1), false=exp.Literal.number(0))
    try:
        if sql(trying(whole, known, ansi=ansi)) == sql(whole):
            return None
    except MightRaise as no:
        return str(no)
    return str(MightRaise(tree))


_LARGEST = {"tinyint": 2**7 - 1, "smallint": 2**15 - 1, "int": 2**31 - 1, "bigint": 2**63 - 1}
_MOST_DIGITS = 38  # of a decimal
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}  # of the largest number, or of the smallest


def _holds(wide: SqlType | None, type_: SqlType) -> bool:
    """Whether a cast from one type to another has a value for every value, so that it never raises an error."""
    if wide is None or type_.name == "void":
        return wide is not None
    if wide.name == "decimal" and type_.name in (*_DIGITS, "decimal"):
        whole, scale = (_DIGITS.get(type_.name, type_.precision - type_.scale), type_.scale)
        return wide.scale >= scale and wide.precision - wide.scale >= whole
    if type_.integral and wide.integral:
        return INTEGRAL.index(wide.name) >= INTEGRAL.index(type_.name)
    if wide.name in ("float", "double"):
        return type_.numeric
    return type_ == wide or (wide.text == "string" and (type_.numeric or type_.name in TIMES))


def _fits(tree: exp.Expression, left: SqlType | None, right: SqlType | None) -> bool:
    """Whether a sum or a product of decimals has a value whatever they are: its type has all of its digits."""
    operands = [t for t in (left, right) if t is not None and (t.integral or t.name == "decimal")]
    if len(operands) < 2 or isinstance(tree, exp.Div) or all(t.integral for t in operands):
        return False
    (whole, scale), (other, other_scale) = (t.digits for t in operands)
    if isinstance(tree, exp.Mul):
        return whole + other + scale + other_scale + 1 <= _MOST_DIGITS
    return max(whole, other) + max(scale, other_scale) + 1 <= _MOST_DIGITS


class _Trying:
    def __init__(self, known: TypeOf, ansi: bool):
        self.known = known
        self.ansi = ansi

    def form(self, tree: exp.Expression) -> exp.Expression:
        """The trying form; raises ``MightRaise`` at the first piece that has none."""
        match tree:
            case exp.Column() if not tree.name.startswith(HOLE):
                return tree.copy()
            case exp.Dot() if isinstance(tree.this, exp.Dot | exp.Column):
                self.form(tree.this)
                return tree.copy()
            case exp.Interval() if isinstance(tree.this, exp.Literal):
                return tree.copy()
            case exp.Cast() if isinstance(tree.this, exp.Literal):
                return tree.copy()
            case exp.Cast():
                return self._cast(tree)
            case exp.Neg() if isinstance(tree.this, exp.Literal):
                return tree.copy()
            case exp.Neg() | exp.Abs():
                return self._sign(tree)
            case exp.Add() | exp.Sub() | exp.Mul() if whole_number(tree) is not None:
                return tree.copy()
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
                return self._arithmetic(tree)
            case exp.SafeAdd() | exp.SafeSubtract() | exp.SafeMultiply() | exp.SafeDivide():
                return self._inside(tree)
            case exp.Mod() | exp.IntDiv():
                return self._divided(tree)
            case exp.Ceil() | exp.Floor() | exp.Round():
                return self._rounded(tree)
            case exp.Paren():
                return self._inside(tree)
            case exp.TsOrDsToDate():
                return self._to_date(tree)
            case exp.TsOrDsAdd() | exp.DateSub() if self._is(tree.this, *TIMES) and self._integral(tree.expression):
                return self._inside(tree)
            case exp.DateDiff() if not tree.args.get("unit"):
                return self._inside(tree)
        if (isinstance(tree, _LEAVES) and not isinstance(tree, exp.Column)) or isinstance(tree, _NOW):
            return tree.copy()
        if isinstance(tree, _OF_DATES):
            return self._of_times(tree, *TIMES)
        if isinstance(tree, _OF_TIMESTAMPS):
            return self._of_timestamps(tree)
        if isinstance(tree, _OF_CLOCKS):
            return self._of_times(tree, "timestamp", "timestamp_ntz")
        if isinstance(tree, _CHOICES):
            return self._choice(tree)
        raise MightRaise(tree)

    def _type(self, tree: exp.Expression) -> SqlType | None:
        return type_of(tree, self.known)

    def _is(self, tree: exp.Expression, *names: str) -> bool:
        found = self._type(tree)
        return found is not None and found.name in names

    def _integral(self, tree: exp.Expression) -> bool:
        found = self._type(tree)
        return found is not None and found.integral

    def _inside(self, tree: exp.Expression) -> exp.Expression:
        """The same expression over the trying forms of its operands."""
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
            raise MightRaise(tree)
        wide = type_of(tree, self.known)
        if source and (_holds(wide, source) or _remains(tree.this, wide)):
            return copy
        if self.ansi or (source and source.name in TIMES and type_of(tree, self.known).name in TIMES):  # type: ignore[union-attr]
            return exp.TryCast(this=copy.this, to=copy.args["to"], safe=True)
        return copy

    def _sign(self, tree: exp.Expression) -> exp.Expression:
        """``-x`` and ``abs(x)``, which overflow for the least integer."""
        inner, type_ = self.form(tree.this), self._type(tree.this)
        if type_ is None or not type_.numeric:
            raise MightRaise(tree)
        if not (self.ansi and type_.integral):
            return self._inside(tree)
        negative = exp.SafeSubtract(this=exp.Literal.number(0), expression=inner)
        return exp.Greatest(this=inner.copy(), expressions=[negative]) if isinstance(tree, exp.Abs) else negative

    def _arithmetic(self, tree: exp.Expression) -> exp.Expression:
        copy = self._inside(tree)
        types = self._type(tree.this), self._type(tree.expression)
        if any(t is None or not (t.numeric or t.name in (*TIMES, "interval")) for t in types):
            raise MightRaise(tree)
        numbers = all(t is not None and t.numeric for t in types)
        if not numbers and not isinstance(tree, exp.Add | exp.Sub):
            raise MightRaise(tree)
        if numbers and (not self.ansi or _fits(tree, *types)):
            return copy
        return _SAFE_TWINS[type(tree)](this=copy.this, expression=copy.expression)

    def _divided(self, tree: exp.Expression) -> exp.Expression:
        """``x DIV 5`` and ``x % 5``."""
        divisor = tree.expression
        if not (self._integral(tree.this) and self._integral(divisor)):
            raise MightRaise(tree)
        if self.ansi and not (isinstance(divisor, exp.Literal) and int(divisor.name) > 0):
            raise MightRaise(tree)
        return self._inside(tree)

    def _rounded(self, tree: exp.Expression) -> exp.Expression:
        type_, scale = self._type(tree.this), tree.args.get("decimals")
        places = int(scale.name) if isinstance(scale, exp.Literal) else 0 if scale is None else -1
        fine = type_ is not None and type_.numeric and places >= 0 and not tree.args.get("to")
        if fine and self.ansi and type_ is not None:
            real = type_.name in ("float", "double")
            fine = isinstance(tree, exp.Round) if real else sum(type_.digits) + 1 + places <= 38
        if not fine:
            raise MightRaise(tree)
        return self._inside(tree)

    def _to_date(self, tree: exp.Expression) -> exp.Expression:
        inner, type_ = self.form(tree.this), self._type(tree.this)
        if type_ is None or type_.name not in (*TIMES, "string"):
            raise MightRaise(tree)
        if self.ansi and type_.name == "string":
            return exp.TryCast(this=inner, to=exp.DataType.build("date"), safe=True)
        return self._inside(tree)

    def _of_times(self, tree: exp.Expression, *names: str) -> exp.Expression:
        """A function of a date or a time: Spark casts other things to one, which may raise."""
        inner = self.form(tree.this)
        if not self._is(tree.this, *names):
            raise MightRaise(tree)
        copy = tree.copy()
        copy.set("this", inner)
        return copy

    def _of_timestamps(self, tree: exp.Expression) -> exp.Expression:
        inner = self.form(tree.this)
        if not self._is(tree.this, *TIMES) or tree.args.get("format"):
            raise MightRaise(tree)
        if not self._is(tree.this, "timestamp", "timestamp_ntz"):  # Spark counts the latter as if in UTC
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
                    raise MightRaise(tree)
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
            raise MightRaise(tree)
        return copy

    def _condition(self, tree: exp.Expression) -> exp.Expression:
        """The trying form of a condition."""
        if isinstance(tree, exp.Like) and self._is(tree.this, "string") and _plain_pattern(tree):
            like: exp.Expression = tree.copy()
            like.set("this", self.form(tree.this))
            return like
        if isinstance(tree, _COMPARISONS):
            parts: list[exp.Expression] = list(tree.iter_expressions())
            if not self._of_one_kind(parts):
                raise MightRaise(tree)
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
        return common([self._type(t) for t in trees if not isinstance(t, exp.Null)]) is not None


def _remains(tree: exp.Expression, wide: SqlType | None) -> bool:
    """Whether a number is what remains of a division by a literal, and of this type in any case: ``x % 50``."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if not isinstance(tree, exp.Mod) or wide is None or not wide.integral:
        return False
    return isinstance(tree.expression, exp.Literal) and 0 < int(tree.expression.name) <= _LARGEST[wide.name]


def _plain_pattern(like: exp.Expression) -> bool:
    """Whether LIKE compares with a literal in which nothing is escaped: a pattern may be wrong otherwise."""
    pattern = like.expression
    return isinstance(pattern, exp.Literal) and pattern.is_string and "\\" not in pattern.name


def whole_number(tree: exp.Expression) -> int | None:
    """The value of integers added, subtracted and multiplied, where no step of it is too large for an INT."""
    match tree:
        case exp.Literal() if tree.is_int:
            found: int | None = int(tree.name)
        case exp.Paren():
            found = whole_number(tree.this)
        case exp.Add() | exp.Sub() | exp.Mul():
            left, right = whole_number(tree.this), whole_number(tree.expression)
            if left is None or right is None:
                return None
            found = (
                left * right if isinstance(tree, exp.Mul) else left + (right if isinstance(tree, exp.Add) else -right)
            )
        case _:
            return None
    return found if found is not None and abs(found) < 2**31 else None
