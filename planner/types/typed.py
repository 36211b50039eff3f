"""The type of an expression, where there is little to it; Spark is asked about the rest."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from planner.expr import sql
from planner.types.schema import INTEGRAL, SqlType, sql_type

TIMES = ("date", "timestamp", "timestamp_ntz")
_BIGINT, _INT, _DOUBLE = SqlType("bigint"), SqlType("int"), SqlType("double")
_DAYS = SqlType("interval", text="interval day to second")
_ALWAYS: dict[type[exp.Expression], SqlType] = {
    **dict.fromkeys((exp.UnixSeconds, exp.UnixMillis, exp.UnixMicros, exp.StrToUnix), _BIGINT),
    **dict.fromkeys((exp.TimestampDiff, exp.IntDiv), _BIGINT),
    **dict.fromkeys((exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth), _INT),
    **dict.fromkeys((exp.DayOfWeek, exp.DayOfYear, exp.Hour, exp.Minute, exp.Second, exp.UnixDate), _INT),
    **dict.fromkeys(
        (exp.TsOrDsToDate, exp.TsOrDsAdd, exp.DateSub, exp.AddMonths, exp.DateTrunc, exp.LastDay), SqlType("date")
    ),
    exp.TimestampTrunc: SqlType("timestamp"),
}
_TIMESTAMP = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ)  # as a function names it, and as a type
_LOCAL = re.compile(r"\s*\d+-\d+-\d+([ T][\d:.]*)?\s*")
WHOLE_DAYS = ("DAY", "WEEK", "MONTH", "YEAR")


def type_of(tree: exp.Expression, known: Callable[[exp.Expression], SqlType | None]) -> SqlType | None:
    """The type of an expression; ``known`` tells that of columns, and of whatever is not told here."""

    def of(inner: exp.Expression) -> SqlType | None:
        return type_of(inner, known)

    found: SqlType | None = _ALWAYS.get(type(tree))
    match tree:
        case exp.Paren() | exp.Neg() | exp.Abs():
            return of(tree.this)
        case exp.Cast():  # TryCast too
            found = cast_type(tree)
        case exp.Interval():
            found = SqlType("interval")
        case exp.DateDiff():
            return _BIGINT if tree.args.get("unit") else _INT
        case exp.TimestampAdd():
            inner = of(tree.this)
            found = inner if inner and inner.name == "timestamp_ntz" else SqlType("timestamp")
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            found = common([of(e) for e in (tree.this, *tree.expressions)])
        case exp.Nullif():
            found = of(tree.this)
        case exp.If():
            found = common([of(e) for e in (tree.args["true"], tree.args.get("false") or tree.args["true"])])
        case exp.Case():
            branches = [b.args["true"] for b in tree.args["ifs"]]
            found = common([of(e) for e in (*branches, tree.args.get("default") or branches[0])])
        case exp.Add() | exp.SafeAdd() | exp.Sub() | exp.SafeSubtract():
            found = _sum(tree, of)
        case exp.Mul() | exp.SafeMultiply() | exp.Mod():
            found = _plain(common([of(tree.this), of(tree.expression)]))
        case exp.Div() | exp.SafeDivide():
            both = common([of(tree.this), of(tree.expression)])
            found = _DOUBLE if both and (both.integral or both.name == "double") else None
        case exp.Ceil() | exp.Floor():
            inner = of(tree.this)
            found = _BIGINT if inner and (inner.integral or inner.name in ("float", "double")) else None
        case exp.Round():
            found = _plain(of(tree.this))
    return found or known(tree)


def cast_type(tree: exp.Cast, *, ntz: bool | None = None) -> SqlType | None:
    """The type that an expression is cast to; None where it hangs on what TIMESTAMP means.

    ``ntz``: it means TIMESTAMP_NTZ (``spark.sql.timestampType``), but for literals that name a time zone, and for
    ``timestamp(x)``, which sqlglot reads as it reads ``x::TIMESTAMP``.
    """
    named = [type_.this for type_ in tree.to.find_all(exp.DataType) if type_.this in _TIMESTAMP]
    if named and ntz is not False:
        local = isinstance(tree.this, exp.Literal) and _LOCAL.fullmatch(tree.this.name)
        plain = tree.to.this in _TIMESTAMP and (isinstance(tree, exp.TryCast) or local)
        return sql_type("timestamp_ntz") if ntz and plain else None
    return sql_type(sql(tree.to))


def common(types: list[SqlType | None]) -> SqlType | None:
    """The type in which Spark compares these; None where it is not plain."""
    sure = [t for t in types if t is not None]
    names = {t.name for t in sure}
    if not sure or len(sure) < len(types):
        return None
    if len(set(sure)) == 1:
        return sure[0]
    if all(t.integral for t in sure):
        return max(sure, key=lambda t: INTEGRAL.index(t.name))
    if all(t.numeric for t in sure) and "double" in names:
        return _DOUBLE
    if "decimal" in names and all(t.integral or t.name == "decimal" for t in sure):
        before, behind = (max(t.digits[i] for t in sure) for i in (0, 1))
        text = f"decimal({before + behind},{behind})"
        return SqlType("decimal", before + behind, behind, text) if before + behind <= 38 else None
    return SqlType("timestamp") if names == {"date", "timestamp"} else None


def _plain(type_: SqlType | None) -> SqlType | None:
    """A type that arithmetic keeps: that of decimals grows."""
    return type_ if type_ and type_.name != "decimal" else None


def _sum(tree: exp.Expression, of: Callable[[exp.Expression], SqlType | None]) -> SqlType | None:
    left, right = of(tree.this), of(tree.expression)
    if isinstance(tree.expression, exp.Interval) and left and left.name in TIMES:
        unit = tree.expression.args.get("unit")
        whole = isinstance(unit, exp.Var) and unit.name.upper().removesuffix("S") in WHOLE_DAYS
        return left if whole or left.name != "date" else SqlType("timestamp")
    if left is None or right is None:
        return None
    if left.name == "date" and right.integral:
        return left
    if left.name in TIMES and right.name in TIMES:
        return None if left.name == right.name == "date" else _DAYS
    if left.name in ("timestamp", "timestamp_ntz") and right.name == "interval":
        return left
    both = common([left, right]) if left.numeric and right.numeric else None
    if both is None or both.name != "decimal":
        return both
    precision = both.precision + 1
    return SqlType("decimal", precision, both.scale, f"decimal({precision},{both.scale})") if precision <= 38 else None
