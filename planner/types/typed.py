"""Infers the types of simple expressions; Spark analyzes all others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dovetail.planner.errors import Place, Refused
from dovetail.planner.expr import sql
from dovetail.planner.types.schema import INTEGRAL, SqlType, sql_type

_Of = Callable[[exp.Expression], SqlType | None]
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
    exp.CurrentDate: SqlType("date"),
    exp.Count: _BIGINT,
}
_REAL = frozenset(
    "acos asin atan atan2 cbrt cos degrees exp hypot ln log log10 log2 pi pow power radians sin sqrt tan".split()
)  # functions that return a DOUBLE for any numbers
_OF_TEXT = frozenset(
    "btrim concat_ws initcap left lpad ltrim regexp_extract regexp_replace repeat replace reverse right rpad rtrim "
    "split split_part substr substring substring_index translate trim".split()
)  # functions that return a text, or texts, where their first argument is one
_TIMESTAMP = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ)  # as a function names it, and as a type
_LOCAL = re.compile(r"\s*\d+-\d+-\d+([ T][\d:.]*)?\s*")
WHOLE_DAYS = ("DAY", "WEEK", "MONTH", "YEAR")


def known_type(found: SqlType | None, of: str, place: Place | None = None) -> SqlType:
    """The type that was found of something.  Raises ``Refused`` where there is none."""
    if found is None:
        raise Refused(f"the type of {of} is not known", place)
    return found


def infer_type(
    tree: exp.Expression, known: Callable[[exp.Expression], SqlType | None], *, ntz: bool | None = None
) -> SqlType | None:
    """Infer the type that Spark gives to an expression; None where it cannot be inferred.

    ``known`` returns the types of columns and of other expressions; ``ntz``: TIMESTAMP means TIMESTAMP_NTZ.
    """

    def of(inner: exp.Expression) -> SqlType | None:
        return infer_type(inner, known, ntz=ntz)

    if isinstance(tree, exp.Paren | exp.Max | exp.Min):
        return of(tree.this)
    if isinstance(tree, exp.Cast):  # TryCast too
        found = cast_type(tree, ntz=ntz)
    else:
        found = _ALWAYS.get(type(tree))
        rule = next((_RULES[c] for c in type(tree).__mro__ if c in _RULES), None)
        found = rule(tree, of) if rule else found
    return found or known(tree)


def cast_type(tree: exp.Cast, *, ntz: bool | None = None) -> SqlType | None:
    """Return the target type of a cast; None if it depends on the meaning of TIMESTAMP.

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
    """Return the common type in which Spark compares; None if it is not simple."""
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
    if "decimal" in names and all(t.exact_numeric for t in sure):
        before, behind = (max(t.digits[i] for t in sure) for i in (0, 1))
        text = f"decimal({before + behind},{behind})"
        return SqlType("decimal", before + behind, behind, text) if before + behind <= 38 else None
    return SqlType("timestamp") if names == {"date", "timestamp"} else None


def _number(text: str) -> SqlType | None:
    """The type of a number as it is written; None where that hangs on a setting."""
    if "e" in text.lower():
        return None  # a decimal where spark.sql.legacy.exponentLiteralAsDecimal.enabled is set
    before, _, behind = text.lstrip("-").partition(".")
    if "." in text or not -(2**63) <= int(text) < 2**63:
        return _decimal(max(len(before.lstrip("0")) + len(behind), 1), len(behind))
    return _INT if -(2**31) <= int(text) < 2**31 else _BIGINT


def _aggregated(tree: exp.Expression, of: _Of) -> SqlType | None:
    """The type of sum or avg."""
    inner = None if isinstance(tree.this, exp.Distinct) else of(tree.this)
    if inner is None or not inner.numeric:
        return None
    if inner.name == "decimal":
        more = (10, 0) if isinstance(tree, exp.Sum) else (4, 4)
        return _decimal(min(inner.precision + more[0], 38), min(inner.scale + more[1], 38))
    return _BIGINT if inner.integral and isinstance(tree, exp.Sum) else _DOUBLE


def _decimal(precision: int, scale: int) -> SqlType:
    return SqlType("decimal", precision, scale, f"decimal({precision},{scale})")


def _text(parts: list[exp.Expression], of: _Of) -> SqlType | None:
    """The type of texts one after another, none of which has a collation."""
    types = {type_.text if (type_ := of(part)) else "" for part in parts}
    return SqlType("string") if types == {"string"} else None


def _called(name: str, arguments: list[exp.Expression], of: _Of) -> SqlType | None:
    """The type of a call that has no class of its own."""
    if name in _REAL:
        return _DOUBLE
    if name == "concat":
        return _text(arguments, of)
    if name == "array" and (element := common(list(map(of, arguments)))):
        return sql_type(f"array<{element.text}>")
    if name == "named_struct":
        fields = [(one.name, of(other)) for one, other in zip(arguments[::2], arguments[1::2], strict=False)]
        if all(type_ and field.isidentifier() for field, type_ in fields):
            return sql_type(f"struct<{','.join(f'{field}:{type_.text}' for field, type_ in fields if type_)}>")
    if name in _OF_TEXT and arguments:
        types = list(map(of, arguments))
        plain = all(t is not None and "collate" not in t.text for t in types)
        if plain and types[0] == SqlType("string"):
            return sql_type("array<string>") if name == "split" else types[0]
    return None


def _plain(type_: SqlType | None) -> SqlType | None:
    """Return a type that arithmetic preserves; decimals grow, strings become numbers."""
    return type_ if type_ and (type_.integral or type_.approximate) else None


def _sum(tree: exp.Expression, of: _Of) -> SqlType | None:
    left, right = of(tree.this), of(tree.expression)
    if isinstance(tree.expression, exp.Interval) and left and left.temporal:
        unit = tree.expression.args.get("unit")
        whole = isinstance(unit, exp.Var) and unit.name.upper().removesuffix("S") in WHOLE_DAYS
        return left if whole or left.name != "date" else SqlType("timestamp")
    if left is None or right is None:
        return None
    if left.name == "date" and right.integral:
        return left
    if left.temporal and right.temporal:
        return None if left.name == right.name == "date" else _DAYS
    if left.name in ("timestamp", "timestamp_ntz") and right.name == "interval":
        return left
    return _numeric_sum(tree, left, right) if left.numeric and right.numeric else None


def _numeric_sum(tree: exp.Expression, left: SqlType, right: SqlType) -> SqlType | None:
    both = common([left, right])
    if both is None or both.name != "decimal":
        return both
    if any(t.integral and not e.find(exp.Column) for t, e in ((left, tree.this), (right, tree.expression))):
        return None  # an integer as it is written has as many digits as it shows
    return _decimal(both.precision + 1, both.scale) if both.precision < 38 else None


def _negated(tree: exp.Expression, of: _Of) -> SqlType | None:
    """The type of ``-x`` or ``abs(x)``; of a text Spark makes a number first."""
    if isinstance(tree, exp.Neg) and isinstance(tree.this, exp.Literal) and not tree.this.is_string:
        return _number(f"-{tree.this.name}")
    inner = of(tree.this)
    return inner if inner and (inner.numeric or inner.name == "interval") else None


def _rounded(tree: exp.Expression, of: _Of) -> SqlType | None:
    """The type of ``ceil`` and ``floor``."""
    inner = of(tree.this)
    return _BIGINT if inner and (inner.integral or inner.approximate) and not tree.args.get("decimals") else None


def _quotient(tree: exp.Expression, of: _Of) -> SqlType | None:
    both = common([of(tree.this), of(tree.expression)])
    return _DOUBLE if both and (both.integral or both.name == "double") else None


def _shifted(tree: exp.Expression, of: _Of) -> SqlType | None:
    """The type of ``timestampadd``."""
    inner = of(tree.this)
    return inner and (inner if inner.name == "timestamp_ntz" else SqlType("timestamp"))


def _branches(tree: exp.Expression, of: _Of) -> SqlType | None:
    """The type of CASE or ``if``."""
    values = [b.args["true"] for b in (tree.args["ifs"] if isinstance(tree, exp.Case) else [tree])]
    default = tree.args.get("default") or tree.args.get("false") or values[0]
    return common([of(value) for value in (*values, default)])


def _element(tree: exp.Expression, of: _Of) -> SqlType | None:
    inner = of(tree.this)
    return inner.elements[0] if inner and inner.name == "array" else None


_RULES: dict[type[exp.Expression], Callable[[Any, _Of], SqlType | None]] = {
    **dict.fromkeys((exp.Neg, exp.Abs), _negated),
    exp.Literal: lambda tree, of: SqlType("string") if tree.is_string else _number(tree.name),
    **dict.fromkeys((exp.Sum, exp.Avg), _aggregated),
    exp.Interval: lambda tree, of: SqlType("interval"),
    exp.DateDiff: lambda tree, of: _BIGINT if tree.args.get("unit") else _INT,
    exp.TimestampAdd: _shifted,
    **dict.fromkeys(
        (exp.Coalesce, exp.Greatest, exp.Least),
        lambda tree, of: common([of(e) for e in (tree.this, *tree.expressions)]),
    ),
    exp.Nullif: lambda tree, of: of(tree.this),
    **dict.fromkeys((exp.If, exp.Case), _branches),
    **dict.fromkeys((exp.Add, exp.SafeAdd, exp.Sub, exp.SafeSubtract), _sum),
    **dict.fromkeys(
        (exp.Mul, exp.SafeMultiply, exp.Mod),
        lambda tree, of: _plain(common([of(tree.this), of(tree.expression)])),
    ),
    **dict.fromkeys((exp.Div, exp.SafeDivide), _quotient),
    **dict.fromkeys((exp.Ceil, exp.Floor), _rounded),
    exp.Round: lambda tree, of: _plain(of(tree.this)),
    exp.DPipe: lambda tree, of: _text([tree.this, tree.expression], of),
    **dict.fromkeys((exp.Upper, exp.Lower), lambda tree, of: _text([tree.this], of)),
    exp.Explode: _element,
    exp.Anonymous: lambda tree, of: (
        _called(tree.this.lower(), tree.expressions, of) if isinstance(tree.this, str) else None
    ),
}
"""The types of expressions by their class, which a subclass inherits."""
