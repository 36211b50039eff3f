"""The Spark functions that rules understand: a sqlglot class for each, with the arguments in Spark's order."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.expr.functions import AGGREGATES, ROW_FUNCTIONS, VOLATILE

Arguments = tuple[str, ...]
_NAME = "called"  # in the meta of a call: its name as written

# The functions that rules understand: class, and its arguments in the order of the call; the last may be a list.
FUNCTIONS: dict[str, tuple[type[exp.Expr], Arguments]] = {
    "ABS": (exp.Abs, ("this",)),
    "ADD_MONTHS": (exp.AddMonths, ("this", "expression")),
    "AVG": (exp.Avg, ("this",)),
    "CEIL": (exp.Ceil, ("this", "decimals")),
    "CEILING": (exp.Ceil, ("this", "decimals")),
    "COALESCE": (exp.Coalesce, ("this", "expressions")),
    "COUNT": (exp.Count, ("this", "expressions")),
    "CURRENT_DATE": (exp.CurrentDate, ()),
    "CURRENT_TIMESTAMP": (exp.CurrentTimestamp, ()),
    "DATE_SUB": (exp.DateSub, ("this", "expression")),
    "DATE_TRUNC": (exp.TimestampTrunc, ("unit", "this")),
    "DAY": (exp.Day, ("this",)),
    "DAYOFMONTH": (exp.DayOfMonth, ("this",)),
    "DAYOFWEEK": (exp.DayOfWeek, ("this",)),
    "DAYOFYEAR": (exp.DayOfYear, ("this",)),
    "DENSE_RANK": (exp.DenseRank, ()),
    "EXPLODE": (exp.Explode, ("this",)),
    "FLOOR": (exp.Floor, ("this", "decimals")),
    "GREATEST": (exp.Greatest, ("this", "expressions")),
    "HOUR": (exp.Hour, ("this",)),
    "IFNULL": (exp.Coalesce, ("this", "expressions")),
    "INLINE": (exp.Inline, ("this",)),
    "LAG": (exp.Lag, ("this", "offset", "default")),
    "LAST_DAY": (exp.LastDay, ("this",)),
    "LEAD": (exp.Lead, ("this", "offset", "default")),
    "LEAST": (exp.Least, ("this", "expressions")),
    "LOWER": (exp.Lower, ("this",)),
    "MAKE_INTERVAL": (exp.MakeInterval, ("year", "month", "week", "day", "hour", "minute", "second")),
    "MAX": (exp.Max, ("this",)),
    "MEAN": (exp.Avg, ("this",)),
    "MIN": (exp.Min, ("this",)),
    "MINUTE": (exp.Minute, ("this",)),
    "MONTH": (exp.Month, ("this",)),
    "NULLIF": (exp.Nullif, ("this", "expression")),
    "NVL": (exp.Coalesce, ("this", "expressions")),
    "POSEXPLODE": (exp.Posexplode, ("this",)),
    "QUARTER": (exp.Quarter, ("this",)),
    "RANK": (exp.Rank, ()),
    "ROUND": (exp.Round, ("this", "decimals")),
    "ROW_NUMBER": (exp.RowNumber, ()),
    "SECOND": (exp.Second, ("this",)),
    "SUM": (exp.Sum, ("this",)),
    "TO_DATE": (exp.TsOrDsToDate, ("this",)),
    "TO_UNIX_TIMESTAMP": (exp.StrToUnix, ("this", "format")),
    "TRUNC": (exp.DateTrunc, ("this", "unit")),
    "TRY_ADD": (exp.SafeAdd, ("this", "expression")),
    "TRY_DIVIDE": (exp.SafeDivide, ("this", "expression")),
    "TRY_MULTIPLY": (exp.SafeMultiply, ("this", "expression")),
    "TRY_SUBTRACT": (exp.SafeSubtract, ("this", "expression")),
    "UNIX_DATE": (exp.UnixDate, ("this",)),
    "UNIX_MICROS": (exp.UnixMicros, ("this",)),
    "UNIX_MILLIS": (exp.UnixMillis, ("this",)),
    "UNIX_SECONDS": (exp.UnixSeconds, ("this",)),
    "UNIX_TIMESTAMP": (exp.StrToUnix, ("this", "format")),
    "UPPER": (exp.Upper, ("this",)),
    "WEEKOFYEAR": (exp.WeekOfYear, ("this",)),
    "YEAR": (exp.Year, ("this",)),
}
_OPTIONAL = frozenset(("decimals", "offset", "default", "format", "expressions", *FUNCTIONS["MAKE_INTERVAL"][1]))
# The same name with another number of arguments: ``date_add(d, 3)``, ``dateadd(HOUR, 3, ts)``.
_OF_DAYS: dict[str, tuple[type[exp.Expr], Arguments]] = {
    "DATE_ADD": (exp.TsOrDsAdd, ("this", "expression")),
    "DATEADD": (exp.TsOrDsAdd, ("this", "expression")),
    "DATE_DIFF": (exp.DateDiff, ("this", "expression")),
    "DATEDIFF": (exp.DateDiff, ("this", "expression")),
}
_OF_UNITS: dict[str, tuple[type[exp.Expr], Arguments]] = {
    "DATE_ADD": (exp.TimestampAdd, ("unit", "expression", "this")),
    "DATEADD": (exp.TimestampAdd, ("unit", "expression", "this")),
    "TIMESTAMPADD": (exp.TimestampAdd, ("unit", "expression", "this")),
    "DATE_DIFF": (exp.DateDiff, ("unit", "expression", "this")),
    "DATEDIFF": (exp.DateDiff, ("unit", "expression", "this")),
    "TIMESTAMPDIFF": (exp.TimestampDiff, ("unit", "expression", "this")),
}
# Casts in the form of a call: ``int(x)``.
CASTS = ("BIGINT", "BOOLEAN", "DATE", "DOUBLE", "FLOAT", "INT", "SMALLINT", "STRING", "TIMESTAMP", "TINYINT")
# Calls with a grammar of their own, which sqlglot reads.
GRAMMAR = ("CAST", "EXTRACT", "TRIM", "TRY_CAST")
# Calls that may have words between their arguments, where others have commas.
WORDS = {
    "OVERLAY": ("PLACING", "FROM", "FOR"),
    "POSITION": ("IN",),
    "SUBSTR": ("FROM", "FOR"),
    "SUBSTRING": ("FROM", "FOR"),
}
_TABLES = (FUNCTIONS, _OF_DAYS, _OF_UNITS)
_KINDS: tuple[type[exp.Expr], ...] = tuple({kind: None for t in _TABLES for kind, _ in t.values()})


# Bare words that are read as functions; Spark takes them for columns where there are such.
FUNCTIONS_WITHOUT_BRACKETS = frozenset(
    "current_date current_timestamp current_datetime current_role current_user session_user".split()
)
# Names that mean a function of Spark itself that is not volatile, unless a session has a user's of that name.
BUILT_IN = ROW_FUNCTIONS | AGGREGATES | {*FUNCTIONS, *_OF_DAYS, *_OF_UNITS, *CASTS, *GRAMMAR, "IF"}
KNOWN = BUILT_IN | VOLATILE
_ROWS_BY_GRAMMAR = (
    *(exp.Cast, exp.Case, exp.If, exp.And, exp.Or, exp.Extract, exp.Trim, exp.RegexpLike, exp.Exists),
    *(exp.CurrentDate, exp.CurrentTimestamp),
)


GENERATORS = (exp.UDTF, exp.Explode, exp.Posexplode, exp.Inline)
"""Functions that make several rows of one."""


def unknown(tree: exp.Expr) -> exp.Expr | None:
    """Return the first call that is not a known row function, aggregate or window function of Spark.

    It may be a user's function, a generator or an aggregate.
    """
    return _odd(tree, ROW_FUNCTIONS | VOLATILE)


def volatile(tree: exp.Expr) -> exp.Expr | None:
    """Return the first call that may be volatile."""
    return _odd(tree, ROW_FUNCTIONS) or tree.find(exp.AnonymousAggFunc)


def repeated_otherwise(tree: exp.Expr) -> exp.Expr | None:
    """Return the first volatile call of a built-in function."""
    called = (node for node in tree.find_all(exp.Anonymous) if isinstance(node.this, str))
    return next((node for node in called if node.this.upper() in VOLATILE), None)


def _odd(tree: exp.Expr, known: frozenset[str]) -> exp.Expr | None:
    kinds = (*_KINDS, *_ROWS_BY_GRAMMAR, exp.AnonymousAggFunc)
    for node in tree.walk():
        if isinstance(node, exp.Anonymous):
            qualified = isinstance(node.parent, exp.Dot) and node.parent.expression is node
            if qualified or not isinstance(node.this, str) or node.this.upper() not in known:
                return node
        elif isinstance(node, exp.Func) and not isinstance(node, kinds):
            return node
    return None


def call(name: str, given: list[exp.Expr], call: exp.Expr) -> exp.Expr:
    """Convert a call by name to the class that rules know it by, or return ``call`` itself."""
    upper = name.upper()
    if any(isinstance(e, exp.Kwarg) for e in given):
        return call
    found: exp.Expr | None = None
    for table in (FUNCTIONS, _OF_DAYS):
        if upper in table:
            found = found or _node(*table[upper], given)
    if upper in _OF_UNITS and len(given) == 3 and isinstance(unit := given[0], exp.Column) and not unit.table:
        found = _node(*_OF_UNITS[upper], [exp.var(unit.name), *given[1:]])
    if upper == "IF" and len(given) == 3:
        found = exp.If(this=given[0], true=given[1], false=given[2])
    if upper in CASTS and len(given) == 1:
        found = exp.Cast(this=given[0], to=exp.DataType.build("timestamptz" if upper == "TIMESTAMP" else upper.lower()))
    if upper in AGGREGATES:
        found = exp.AnonymousAggFunc(this=name, expressions=given)
    if found is None:
        return call
    found.meta[_NAME] = name
    return found


def call_parts(tree: exp.Expr) -> tuple[str, list[exp.Expr]] | None:
    """Return the name and the arguments of a call of such a class; None for other expressions."""
    name = tree.meta.get(_NAME, "")
    if isinstance(tree, exp.AnonymousAggFunc):
        return tree.name, tree.expressions
    if isinstance(tree, exp.If):
        otherwise = tree.args.get("false")
        given = [tree.this, tree.args["true"], otherwise or exp.Null()]
        return None if isinstance(tree.parent, exp.Case) else (name or "if", given)
    if isinstance(tree, exp.Cast):
        return (name, [tree.this]) if name else None
    if type(tree) not in _KINDS:
        return None
    for table in (FUNCTIONS, _OF_UNITS if tree.args.get("unit") else _OF_DAYS, _OF_DAYS):
        for own, (kind, arguments) in table.items():
            if kind is type(tree) and name.upper() in ("", own):
                return name or own, _given(tree, arguments)
    return None


def _given(tree: exp.Expr, arguments: Arguments) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for name in arguments:
        value = tree.args.get(name)
        found += value if isinstance(value, list) else [value] if value is not None else []
    return found


def _node(kind: type[exp.Expr], arguments: Arguments, given: list[exp.Expr]) -> exp.Expr | None:
    """Build a call from its arguments; None if their number does not fit."""
    found = kind()
    left = list(given)
    for name in arguments:
        if name == "expressions":
            found.set(name, left)
            left = []
        elif left:
            found.set(name, left.pop(0))
        elif name not in _OPTIONAL:
            return None
    return None if left else found
