"""A Spark session as a catalog: tables, settings, statistics.  Works on classic and Connect sessions alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from time import perf_counter
from typing import Any, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from planner.catalog import Numbers, Settings, View
from planner.catalog.declared import Declaration
from planner.catalog.stats import UNKNOWN, Statistics
from planner.runtime.batch import Arguments, analysed, classic, run
from planner.runtime.keys import Declared
from planner.runtime.measurement_cache import MeasurementCache, asked, items
from planner.runtime.promises import Meanings, Promises
from planner.runtime.together import together
from planner.runtime.views import Views, other_setting, set_otherwise
from planner.types.schema import Column, sql_type

K = TypeVar("K")
V = TypeVar("V")

_SIZE = re.compile(r"Statistics\(sizeInBytes=([\d.]+) (B|KiB|MiB|GiB|TiB|PiB|EiB)(?:, rowCount=([\d.E+]+))?")
_BYTES = {unit: 1024**n for n, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}
_UNKNOWN_BYTES = 4 * 1024**6  # Spark says 8 EiB where it does not know
_OPERATOR = re.compile(r"[\s:+\-|]*'?(\w+)")
_PLAIN = frozenset("Project Filter Relation LocalRelation HiveTableRelation InMemoryRelation LogicalRDD Range".split())
_REPEATABLE = frozenset(
    "Project Filter SubqueryAlias View Relation LocalRelation OneRowRelation Range Join Union Distinct Aggregate "
    "HiveTableRelation InMemoryRelation DataSourceV2Relation RelationV2 UnresolvedHint ResolvedHint "
    "CTERelationRef CTERelationDef WithCTE".split()
)
# Aggregates whose value hangs on the order in which rows arrive: floating sums and whatever takes one of many.
_BY_ORDER = re.compile(
    r"\b((?:try_)?sum|(?:try_)?avg|mean|stddev\w*|var\w*|corr|covar\w*|regr_\w+|first\w*|last\w*|any_value|mode|max_by|min_by|"
    r"collect_\w+|array_agg|listagg|string_agg|approx_\w+|percentile\w*|skewness|kurtosis)\(",
    re.IGNORECASE,
)
_SUMS = ("sum", "avg", "mean", "try_sum", "try_avg")
# Guesses for files, where Spark knows bytes only: rows are more often wider than narrower, and a file of Parquet with
# three columns has about this much beside them.
_ROW_BYTES, _FILE_BYTES = 8, 1_000


class SparkCatalog(Promises):
    """What one planning asks of a session; asks each question once.

    ``arguments`` are the statement's parameters, which pieces of it may name; ``declared`` the keys that the user
    declared; ``remembered`` what has been measured before; ``seconds`` is the time spent asking.
    """

    def __init__(
        self,
        session: SparkSession,
        arguments: Arguments = None,
        declared: Declared | None = None,
        declarations: Mapping[tuple[str, ...], Declaration] | None = None,
        remembered: MeasurementCache[tuple[Numbers, ...]] | None = None,
        meanings: Meanings | None = None,
    ):
        super().__init__(session, declared or {}, declarations or {}, meanings or {})
        self.arguments = arguments
        self.remembered = remembered
        self._statistics: dict[str, Statistics] = {}
        self._measured: dict[str, tuple[Numbers, ...] | None] = {}
        self._schemas: dict[str, tuple[Column, ...] | None] = {}
        self._columns: dict[tuple[str, ...], tuple[Column, ...] | None] = {}
        self._analysed: dict[str, tuple[DataFrame, StructType] | str] = {}
        self._streams: dict[str, int] = {}
        self._unrepeatable: dict[str, str | None] = {}
        self._views: dict[tuple[str, ...], View | None] = {}

    @cached_property
    def settings(self) -> Settings:
        """The settings of the session that decide what SQL means."""
        start = perf_counter()

        def get(name: str, default: str) -> str:
            return self.session.conf.get(name, default) or default

        def on(name: str, *, default: bool = False) -> bool:
            return get(name, str(default)).lower() == "true"

        ansi = on("spark.sql.ansi.enabled", default=True)
        found = Settings(
            ansi=ansi,
            case_sensitive=on("spark.sql.caseSensitive"),
            time_zone=self.session.conf.get("spark.sql.session.timeZone") or "UTC",  # unless set, the machine's
            timestamp_ntz=get("spark.sql.timestampType", "TIMESTAMP_LTZ").upper() == "TIMESTAMP_NTZ",
            commas_last=ansi and on("spark.sql.ansi.relationPrecedence"),
            # its order of times is one of intervals, and those of old have none
            asof_join=on("spark.sql.join.asofJoin.enabled") and not on("spark.sql.legacy.interval.enabled"),
            double_quoted_identifiers=ansi and on("spark.sql.ansi.doubleQuotedIdentifiers"),
            escaped_string_literals=on("spark.sql.parser.escapedStringLiterals"),
            consecutive_string_literals=on("spark.sql.legacy.consecutiveStringLiterals.enabled"),
            equal_set_operations=on("spark.sql.legacy.setopsPrecedence.enabled"),
            outer_with_names=get("spark.sql.legacy.ctePrecedencePolicy", "CORRECTED").upper() != "CORRECTED",
            own_functions_first=get("spark.sql.functionResolution.sessionOrder", "second").lower() == "first",
            others=set_otherwise(self.session),
        )
        self.seconds += perf_counter() - start
        return found

    def _all(self, kept: dict[K, V], keys: tuple[K, ...], ask: Callable[[K], V]) -> tuple[V, ...]:
        """The answers to several such questions, all of them asked at once."""
        start = perf_counter()
        new = [key for key in dict.fromkeys(keys) if key not in kept]
        kept.update(zip(new, together(self.session, *(partial(ask, key) for key in new)), strict=True))
        self.seconds += perf_counter() - start
        return tuple(kept[key] for key in keys)

    def columns(self, name: tuple[str, ...]) -> tuple[Column, ...] | None:
        """The columns of a table or view, or None when Spark finds no such table."""
        return self._once(self._columns, name, self._find_columns)

    def _find_columns(self, name: tuple[str, ...]) -> tuple[Column, ...] | None:
        try:
            return _columns(self.session.table(".".join("`" + part.replace("`", "``") + "`" for part in name)).schema)
        except PySparkException:
            return None

    def view(self, name: tuple[str, ...]) -> View | None:
        """What a view stands for; None on Spark Connect, which does not tell the settings it was made under."""
        return self._once(self._views, name, self._definitions.find)

    @cached_property
    def _definitions(self) -> Views:
        return Views(self.session)

    def other_setting(self, view: View) -> str | None:
        """A setting of the session that is not what it was when the view was made, or None."""
        start = perf_counter()
        found = other_setting(self.session, view)
        self.seconds += perf_counter() - start
        return found

    def schema(self, query: str) -> tuple[Column, ...] | None:
        """The columns of a query as Spark analyses it, or None when Spark does not take it."""
        return self._once(self._schemas, query, self._find_schema)

    def analysed(self, query: str) -> tuple[DataFrame, StructType] | str:
        """A query as Spark analyses it, or the first line of its error; analysed once."""
        return self._once(self._analysed, query, lambda text: analysed(self.session, text, self.arguments))

    def streams(self, query: str) -> int:
        """How many streams a query reads, each as often as Spark would read it."""
        found = self.analysed(query)
        return (
            0 if isinstance(found, str) or not found[0].isStreaming else self._once(self._streams, query, self._count)
        )

    def _count(self, query: str) -> int:
        explained = run(self.session, f"EXPLAIN EXTENDED {query}", self.arguments).collect()[0][0]
        return read_streams(explained)

    def _find_schema(self, query: str) -> tuple[Column, ...] | None:
        found = self.analysed(query)
        return None if isinstance(found, str) else _columns(found[1])

    def statistics(self, relation: str) -> Statistics:
        """Spark's own estimate for a query, as its optimizer sees it; the query does not run."""
        return self._once(self._statistics, relation, self._find_statistics)

    def statistics_all(self, relations: tuple[str, ...]) -> tuple[Statistics, ...]:
        """The estimates for several, asked at once."""
        return self._all(self._statistics, relations, self._find_statistics)

    def _find_statistics(self, relation: str) -> Statistics:
        try:
            return self._estimate(relation)
        except PySparkException:
            return UNKNOWN

    def _estimate(self, relation: str) -> Statistics:
        if classic(self.session):  # a third of the time of EXPLAIN, which plans all the way
            frame: Any = run(self.session, relation, self.arguments)
            plan = frame._jdf.queryExecution().optimizedPlan()
            found = plan.stats()
            rows = int(str(found.rowCount().get())) if found.rowCount().isDefined() else None
            return _statistics(int(str(found.sizeInBytes())), rows, plan.toString())
        return read_statistics(run(self.session, f"EXPLAIN COST {relation}", self.arguments).collect()[0][0])

    def measure(self, query: str) -> tuple[Numbers, ...] | None:
        """Run a query that returns a few rows of numbers: a Spark job; None if Spark does not take it."""
        return self._once(self._measured, query, self._measure)

    def measure_all(self, queries: tuple[str, ...]) -> tuple[tuple[Numbers, ...] | None, ...]:
        """Run several of them at once."""
        return self._all(self._measured, queries, self._measure)

    def _measure(self, query: str) -> tuple[Numbers, ...] | None:
        try:
            frame = run(self.session, query, self.arguments)
            if self.remembered is None or not classic(self.session):
                return _numbers(frame)
            question = asked(frame)
            found = self.remembered.find(question) if question else None
            if found is None:
                found = _numbers(frame)
                if question:
                    self.remembered.keep(question, found)
            return found
        except PySparkException:
            return None

    def unrepeatable(self, query: str) -> str | None:
        """Why reading ``query`` twice might give other rows, as far as Spark's analysed plan tells; else None."""
        return self._once(self._unrepeatable, query, self._find_unrepeatable)

    def _find_unrepeatable(self, query: str) -> str | None:
        try:
            if not classic(self.session):
                return "Spark Connect does not tell whether it is deterministic"
            frame: Any = run(self.session, query, self.arguments)
            plan = frame._jdf.queryExecution().analyzed()
            if not plan.deterministic():
                return "it is not deterministic"
            reason = read_unrepeatable(plan.toString())
            return read_unrepeatable(plan.toString(), exact=True) if reason and _sums_are_exact(plan) else reason
        except PySparkException as error:
            return str(error).strip().splitlines()[0]


def read_streams(explained: str) -> int:
    """Count the streams in an EXPLAIN EXTENDED text of a query that reads at least one.

    A definition in WITH stands there once, however often it is read.
    """
    analysed_ = explained.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    references = Counter(re.findall(r"~CTERelationRef (\d+)", analysed_))
    again = sum(count - 1 for count in references.values())
    return max(1, len(re.findall(r"^[\s:|+~\-]*Streaming\w*Relation", analysed_, re.MULTILINE)) + again)


def _numbers(frame: DataFrame) -> tuple[Numbers, ...]:
    return tuple(tuple(None if value is None else float(value) for value in row) for row in frame.collect())


def _columns(schema: StructType) -> tuple[Column, ...]:
    return tuple(Column(f.name, sql_type(_type_text(f))) for f in schema.fields)


def _type_text(field: StructField) -> str:
    """The type of a column as SQL says it: a CHAR is a string to Spark, and compared in another way."""
    declared = str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))
    return declared if declared.startswith("char(") else field.dataType.simpleString()


def read_statistics(plan: str) -> Statistics:
    """Read the estimate for the root of an EXPLAIN COST text."""
    found = _SIZE.search(plan)
    if not found:
        return UNKNOWN
    size = int(float(found[1]) * _BYTES[found[2]])
    return _statistics(size, int(float(found[3])) if found[3] else None, plan.split("== Physical Plan ==")[0])


def _statistics(size: int, rows: int | None, plan: str) -> Statistics:
    if rows is None and size >= _UNKNOWN_BYTES:
        return UNKNOWN
    operators = {found[1] for line in plan.splitlines() if (found := _OPERATOR.match(line))}
    guessed = max((max(size - _FILE_BYTES, size // 4)) // _ROW_BYTES, min(size, 1))  # 0 would say that it is empty
    return Statistics(guessed if rows is None else rows, size, operators <= _PLAIN)


def _sums_are_exact(plan: Any) -> bool:
    """Whether every sum and average of an analysed plan adds numbers whose order does not matter."""
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
            if not (type_.integral or type_.name == "decimal"):
                return False
        expressions += inside
    return True


def read_unrepeatable(plan: str, *, exact: bool = False) -> str | None:
    """Read from the text of an analysed plan why its rows might differ from one reading to the next, or None.

    ``exact``: its sums and averages are of integers and decimals.

    Only what returns the same rows from the same files passes; not LIMIT, samples, windows, RDDs.
    """
    for line in plan.splitlines():
        operator = _OPERATOR.match(line)
        if operator and operator[1] not in _REPEATABLE:
            return f"{operator[1]} may return other rows when it is read twice"
        if operator and operator[1] == "Aggregate":
            if "more fields" in line:
                return "an aggregate has too many columns to be looked through"
            found = (called for called in _BY_ORDER.finditer(line) if not exact or called[1].lower() not in _SUMS)
            if called := next(found, None):
                return f"{called[1].lower()}() may return another value when it is computed twice"
    return None
