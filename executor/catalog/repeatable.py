"""Decides by Spark's analyzed plan whether two reads of a query return the same rows.

A classic session hands out the plan.  Spark Connect hands out its text, without whether its functions are deterministic
and without types: Spark answers the first question for a query in the condition of a join, which has to be
deterministic, and the text shows some of the types.
"""

from __future__ import annotations

import re
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dovetail.executor.catalog.datafusion_plan import is_scan
from dovetail.executor.catalog.measurement_cache import items
from dovetail.executor.session.batch import Arguments, classic
from dovetail.executor.session.requests import explanation, query_frame
from dovetail.planner.types.schema import sql_type

_OPERATOR = re.compile(r"[\s:+\-|]*'?(\w+)")
_REPEATABLE = frozenset(
    "Project Filter SubqueryAlias View Relation LocalRelation OneRowRelation Range Join Union Distinct Aggregate "
    "HiveTableRelation InMemoryRelation DataSourceV2Relation RelationV2 UnresolvedHint ResolvedHint "
    "CTERelationRef CTERelationDef WithCTE".split()
)
_GENERATORS = re.compile(r"Generate (?:explode|posexplode|inline|stack|json_tuple)\(")
# Aggregates that depend on the order of rows: floating-point sums, and functions that pick one of many.
_BY_ORDER = re.compile(
    r"\b((?:try_)?sum|(?:try_)?avg|mean|std|stddev\w*|var_pop|var_samp|variance|corr|covar\w*|regr_\w+|first(?:_value)?|"
    r"last(?:_value)?|any_value|mode|max_by|min_by|"
    r"collect_\w+|array_agg|listagg|string_agg|approx_\w+|percentile\w*|skewness|kurtosis)\(",
    re.IGNORECASE,
)
_SUMS = ("sum", "avg", "mean", "try_sum", "try_avg")
_SUM = re.compile(r"\b((?:try_)?(?:sum|avg))\(", re.IGNORECASE)
_CAST = r"cast\(\w+#\d+L? as (?:tinyint|smallint|int|bigint|decimal\(\d+,\d+\))\)"
_EXACT = re.compile(rf"\w+#\d+L|{_CAST}")
_EXACT_CAST = re.compile(rf"[\[ ]{_CAST} AS \w+#(\d+)L?(?=[,\]])")
_COLUMN = re.compile(r"\w+#(\d+)")
_ALIAS = re.compile(r" AS [^#\n]*#\d+(L?)(?![\w#])")
_ANALYZED, _OPTIMIZED = "== Analyzed Logical Plan ==\n", "\n== Optimized Logical Plan ==\n"
_REFUSED = "INVALID_NON_DETERMINISTIC_EXPRESSIONS"
# A query that is not deterministic, below a WITH in a subquery: a server that does not refuse it exposes nothing.
_CONTROL = "SELECT 1 AS r WHERE EXISTS (WITH c AS (SELECT rand() AS r) SELECT 1 FROM c WHERE r < 2)"
_IN_CONDITION = "SELECT 1 FROM (SELECT 1 AS __dt_l) AS __dt_l JOIN (SELECT 1 AS __dt_r) AS __dt_r ON EXISTS (\n{}\n)"
_refusing: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def is_deterministic(frame: DataFrame) -> bool:
    """Whether no expression of a query is volatile; True on Spark Connect, which does not show it."""
    return not classic(frame.sparkSession) or bool(frame._jdf.queryExecution().analyzed().deterministic())


def nonrepeatable_reason(frame: DataFrame) -> str | None:
    """Why two reads of a query of a classic session may return different rows; None if they cannot."""
    plan = frame._jdf.queryExecution().analyzed()
    if not plan.deterministic():
        return "it is not deterministic"
    text = plan.toString()
    reason = parse_nonrepeatable_reason(text)
    return parse_nonrepeatable_reason(text, exact=True) if reason and _sums_are_exact(plan) else reason


def nonrepeatable_reason_on_connect(session: SparkSession, query: str, arguments: Arguments) -> str | None:
    """The same on Spark Connect: Spark refuses a query in the condition of a join if it is not deterministic."""
    try:
        if not _refuses_volatile(session):
            plan = parse_analyzed_plan(explanation(session, query, arguments))
            is_repeatable = plan is not None and is_scan(plan)
            return None if is_repeatable else "this server does not expose whether it is deterministic"
        plan = parse_analyzed_plan(explanation(session, _IN_CONDITION.format(query), arguments))
        return parse_nonrepeatable_reason(hide_exact_sums(plan)) if plan else "Spark Connect does not expose its plan"
    except PySparkException as error:
        return "it is not deterministic" if _REFUSED in str(error) else str(error).strip().splitlines()[0]


def _refuses_volatile(session: SparkSession) -> bool:
    """Whether a server refuses a query in the condition of a join that is not deterministic; requested once."""
    if session not in _refusing:
        try:
            _ = query_frame(session, _IN_CONDITION.format(_CONTROL)).schema
            _refusing[session] = False
        except PySparkException as error:
            if _REFUSED not in str(error):
                raise
            _refusing[session] = True
    return _refusing[session]


def parse_analyzed_plan(explained: str) -> str | None:
    """Return the analyzed plan of an EXPLAIN EXTENDED text; None if its ends are not certain."""
    if explained.count(_ANALYZED) != 1 or explained.count(_OPTIMIZED) != 1:
        return None
    before, _, rest = explained.partition(_ANALYZED)
    if _OPTIMIZED in before:
        return None
    schema, _, plan = rest.partition(_OPTIMIZED)[0].partition("\n")  # the first line has the columns
    return plan if schema and plan else None


def hide_exact_sums(plan: str) -> str:
    """Replace the sums and averages in the text of a plan that add exact numbers.

    The text has few types: LONG columns end in L, a cast names its type, and only the sum of integers is a LONG.
    """
    exact = {cast[1] for cast in _EXACT_CAST.finditer(plan)}
    found, rest = [], plan
    while call := _SUM.search(rest):
        end = _closing_parenthesis(rest, call.end())
        alias = _ALIAS.match(rest, end + 1)
        integral = alias is not None and bool(alias[1]) and not call[1].lower().endswith("avg")
        column = _COLUMN.fullmatch(rest, call.end(), end)
        if integral or (column and column[1] in exact) or _EXACT.fullmatch(rest, call.end(), end):
            found += [rest[: call.start()], "exact"]
            rest = rest[alias.end() if alias else end + 1 :]
        else:
            found.append(rest[: call.end()])
            rest = rest[call.end() :]
    return "".join((*found, rest))


def _closing_parenthesis(text: str, start: int) -> int:
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place
    return len(text)


def _sums_are_exact(plan: Any) -> bool:
    """Whether every sum and average of an analyzed plan adds exact numbers, so that the order does not matter."""
    nodes, expressions = [plan], []
    while nodes:
        node = nodes.pop()
        nodes += items(node.children()) + items(node.subqueries())
        if node.nodeName() == "Aggregate":
            expressions += items(node.expressions())
    while expressions:
        expression = expressions.pop()
        inside = items(expression.children())
        if expression.prettyName() in _SUMS:
            type_ = sql_type(inside[0].dataType().simpleString())
            if not type_.exact_numeric:
                return False
        expressions += inside
    return True


def parse_nonrepeatable_reason(plan: str, *, exact: bool = False) -> str | None:
    """Find in the text of an analyzed plan why two reads may return different rows, or None.

    ``exact``: its sums and averages are of integers and decimals.

    Only operators that return the same rows for the same files are accepted; not LIMIT, samples, windows, RDDs, or
    a user's table functions.
    """
    for line in plan.splitlines():
        operator = _OPERATOR.match(line)
        if operator and operator[1] not in _REPEATABLE and not _GENERATORS.match(line, operator.start(1)):
            return f"{operator[1]} may return other rows when it is read twice"
        of_aggregate = operator is not None and operator[1] == "Aggregate"
        if of_aggregate and "more fields" in line:
            return "an aggregate has too many columns to check"
        for called in _BY_ORDER.finditer(line):
            if exact and called[1].lower() in _SUMS:
                continue
            # A line break in a literal may begin a line that looks like another operator's.
            if of_aggregate or "#" in line[called.end() : _closing_parenthesis(line, called.end())]:
                return f"{called[1].lower()}() may return another value when it is computed twice"
    return None
