"""The catalog of a Spark session: tables, settings, statistics.  Works on classic and Connect sessions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from time import perf_counter
from typing import TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from dovetail.executor.catalog.constraints import CatalogConstraints
from dovetail.executor.catalog.declared_tables import DeclaredTables
from dovetail.executor.catalog.measurement_cache import MeasurementCache, catalog_query
from dovetail.executor.catalog.repeatable import nonrepeatable_reason, nonrepeatable_reason_on_connect
from dovetail.executor.catalog.statistics import parse_statistics, read_statistics
from dovetail.executor.catalog.views import Views, changed_setting, legacy_settings
from dovetail.executor.session.batch import Arguments, classic
from dovetail.executor.session.concurrent_calls import call_concurrently
from dovetail.executor.session.job_names import job_name
from dovetail.executor.session.pyspark_versions import is_at_least
from dovetail.executor.session.requests import analyze, explanation, query_frame, rows_of
from dovetail.executor.session.sail import is_sail
from dovetail.executor.session.settings import SessionSettings
from dovetail.executor.session.user_code import calls_user_function, runs_user_function
from dovetail.planner.catalog import Numbers, Settings, View
from dovetail.planner.catalog.cost import Thresholds
from dovetail.planner.catalog.measure import ONE_TASK
from dovetail.planner.catalog.settings import QUOTED_REGEX
from dovetail.planner.catalog.stats import UNKNOWN, Statistics
from dovetail.planner.deadline import check_deadline, may_measure
from dovetail.planner.errors import Unsupported
from dovetail.planner.logical import Opaque, Scan, Verbatim
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.types.schema import Column, Deferred, SqlType, sql_type

# The schemas of two queries, each as that of a struct.
_BOTH = """SELECT struct(__dt_1.*), struct(__dt_2.*) FROM (
{}
) AS __dt_1 CROSS JOIN (
{}
) AS __dt_2"""
K = TypeVar("K")
V = TypeVar("V")


class SparkCatalog(CatalogConstraints):
    """The catalog of one planning run; each query to the session is made once.

    ``arguments`` are the statement's parameters, which its parts may use; ``declared`` what the user
    declared; ``measurements`` the cache of earlier measurements; ``one_task_bytes`` the input that is measured in one
    task; ``known`` the session's settings, if they have been read; ``seconds`` the time spent in calls to the session,
    and ``requests`` their number.
    """

    def __init__(
        self,
        session: SparkSession,
        arguments: Arguments = None,
        declared: DeclaredTables | None = None,
        measurements: MeasurementCache[tuple[Numbers, ...]] | None = None,
        one_task_bytes: int = Thresholds.one_task_bytes,
        known: SessionSettings | None = None,
    ):
        super().__init__(session, declared or DeclaredTables(), known or SessionSettings(session))
        self.arguments = arguments
        self.measurements = measurements
        self.one_task_bytes = one_task_bytes
        self._statistics: dict[str, Statistics] = {}
        self._measured: dict[str, tuple[Numbers, ...] | None] = {}
        self._schemas: dict[str, tuple[Column, ...] | None] = {}
        self._columns: dict[tuple[str, ...], tuple[Column, ...] | None] = {}
        self._analyzed_columns: dict[str, tuple[Column, ...] | None] = {}
        self._analyzed: dict[str, tuple[DataFrame, StructType] | str] = {}
        self._streams: dict[str, int] = {}
        self._nonrepeatable_reasons: dict[str, str | None] = {}
        self._views: dict[tuple[str, ...], View | None] = {}

    @cached_property
    def settings(self) -> Settings:
        """The settings of the session that decide what SQL means."""
        start = perf_counter()

        def get(name: str, default: str) -> str:
            return self.known.values.get(name) or default

        def on(name: str, *, default: bool = False) -> bool:
            return get(name, str(default)).lower() == "true"

        ansi = on("spark.sql.ansi.enabled")
        found = Settings(
            ansi=ansi,
            case_sensitive=on("spark.sql.caseSensitive"),
            time_zone=get("spark.sql.session.timeZone", "UTC"),
            timestamp_ntz=get("spark.sql.timestampType", "TIMESTAMP_LTZ").upper() == "TIMESTAMP_NTZ",
            commas_last=ansi and on("spark.sql.ansi.relationPrecedence"),
            # its order of times compares intervals, which legacy intervals do not support
            asof_join=on("spark.sql.join.asofJoin.enabled") and not on("spark.sql.legacy.interval.enabled"),
            nearest_by=is_at_least(self.session.version, 4, 2) and on("spark.sql.crossJoin.enabled", default=True),
            sail=not classic(self.session) and is_sail(self.session),
            native=_has_native_engine(self.known.values),
            double_quoted_identifiers=ansi and on("spark.sql.ansi.doubleQuotedIdentifiers"),
            escaped_string_literals=on("spark.sql.parser.escapedStringLiterals"),
            consecutive_string_literals=on("spark.sql.legacy.consecutiveStringLiterals.enabled"),
            equal_set_operations=on("spark.sql.legacy.setopsPrecedence.enabled"),
            outer_with_names=get("spark.sql.legacy.ctePrecedencePolicy", "CORRECTED").upper() != "CORRECTED",
            quoted_names_are_patterns=on(QUOTED_REGEX),
            own_functions_first=get("spark.sql.functionResolution.sessionOrder", "second").lower() == "first",
            others=legacy_settings(self.known.values) if classic(self.session) else (),
        )
        self.seconds += perf_counter() - start
        return found

    def _memoize_all(self, cache: dict[K, V], keys: tuple[K, ...], compute: Callable[[K], V]) -> tuple[V, ...]:
        """Compute and cache the values of several keys concurrently."""
        check_deadline()
        start = perf_counter()
        new = [key for key in dict.fromkeys(keys) if key not in cache]
        self.requests += len(new)
        cache.update(zip(new, call_concurrently(self.session, *(partial(compute, key) for key in new)), strict=True))
        self.seconds += perf_counter() - start
        return tuple(cache[key] for key in keys)

    def columns(self, name: tuple[str, ...]) -> tuple[Column, ...] | None:
        """Return the columns of a table or view; None if there is no such table."""
        return self._memoize(self._columns, name, self._find_columns)

    def _find_columns(self, name: tuple[str, ...]) -> tuple[Column, ...] | None:
        text = ".".join("`" + part.replace("`", "``") + "`" for part in name)
        stored = self.definitions.find_schema(name)
        if columns := _columns(stored) if stored else self.definitions.find_columns(name):
            if stored and self.definitions.has_nullability(name):
                return columns

            def may_be_null(number: int) -> bool:
                found = self.schema(f"SELECT * FROM {text}")
                return found is None or found[number].may_be_null

            def type_of(number: int) -> SqlType | None:
                found = self._memoize(self._analyzed_columns, text, self._analyze_columns)
                return found[number].type if found else None

            return tuple(
                replace(
                    column,
                    typed=column.typed or Deferred(name, n, partial(type_of, n)),
                    nullable=Deferred(name, n, partial(may_be_null, n)),
                )
                for n, column in enumerate(columns)
            )
        return self._analyze_columns(text)

    def _analyze_columns(self, table: str) -> tuple[Column, ...] | None:
        try:
            return _columns(self.session.table(table).schema)
        except PySparkException:
            return None

    def view(self, name: tuple[str, ...]) -> View | None:
        """Return the definition of a view; None for other relations."""
        return self._memoize(self._views, name, self.definitions.find)

    @cached_property
    def definitions(self) -> Views:
        """The entries of tables and views in Spark's catalog."""
        return Views(self.session)

    def changed_setting(self, view: View) -> str | None:
        """Return a setting that has changed since the view was created, or None."""
        start = perf_counter()
        found = changed_setting(self.session, view)
        self.seconds += perf_counter() - start
        return found

    def schema(self, query: str) -> tuple[Column, ...] | None:
        """Return the columns of a query as Spark analyzes it; None if Spark rejects it."""
        return self._memoize(self._schemas, query, self._find_schema)

    def analyze(self, query: str) -> tuple[DataFrame, StructType] | str:
        """Analyze a query, once; return Spark's result or the first line of its error."""
        return self._memoize(self._analyzed, query, self._analyze)

    def _analyze(self, query: str) -> tuple[DataFrame, StructType] | str:
        return analyze(self.session, query, self.arguments)

    def _analyze_both(self, queries: tuple[str, ...]) -> None:
        """Analyze two queries with one request of Spark Connect, which takes one for each if this one fails."""
        if (
            classic(self.session)
            or self.arguments
            or is_sail(self.session)
            or len(set(queries) - set(self._analyzed)) != 2
        ):
            return
        self.requests += 1
        found = analyze(self.session, _BOTH.format(*queries))
        if not isinstance(found, str):
            for query, field in zip(queries, found[1], strict=True):
                assert isinstance(field.dataType, StructType)
                self._analyzed[query] = query_frame(self.session, query), field.dataType

    def streams(self, query: str, *others: str) -> int:
        """Count the stream scans of a query; ``others``: queries whose analysis will be needed as well."""
        self._analyze_both((query, *others))
        found, *_ = self._memoize_all(self._analyzed, (query, *others), self._analyze)
        if isinstance(found, str) or self._reads_tables_alone(query) or not found[0].isStreaming:
            return 0
        return self._memoize(self._streams, query, self._count)

    def _reads_tables_alone(self, query: str) -> bool:
        """Whether a query is known to read tables alone, on Spark Connect, where it takes a request to know more."""
        if classic(self.session):
            return False
        try:
            plan, _ = from_sql(query, self.settings)
        except Unsupported:
            return False
        relations = [n for n in plan.walk() if isinstance(n, Opaque | Verbatim) or (isinstance(n, Scan) and not n.cte)]
        return all(isinstance(n, Scan) and self.definitions.is_table(n.name) for n in relations)

    def _count(self, query: str) -> int:
        return parse_streams(explanation(self.session, query, self.arguments))

    def _find_schema(self, query: str) -> tuple[Column, ...] | None:
        found = self.analyze(query)
        return None if isinstance(found, str) else _columns(found[1])

    def statistics(self, relation: str) -> Statistics:
        """Return the estimate of Spark's optimizer for a query; the query does not run."""
        return self._memoize(self._statistics, relation, self._find_statistics)

    def statistics_all(self, relations: tuple[str, ...]) -> tuple[Statistics, ...]:
        """Return the estimates of several queries, computed concurrently."""
        return self._memoize_all(self._statistics, relations, self._find_statistics)

    def _find_statistics(self, relation: str) -> Statistics:
        try:
            return self._estimate(relation)
        except PySparkException:
            return UNKNOWN

    def _estimate(self, relation: str) -> Statistics:
        if classic(self.session):  # a third of the time of EXPLAIN, which plans all the way
            analyzed = self.analyze(relation)
            return UNKNOWN if isinstance(analyzed, str) else read_statistics(analyzed[0])
        return parse_statistics(explanation(self.session, relation, self.arguments, "cost"))

    def measure(self, query: str) -> tuple[Numbers, ...] | None:
        """Run a query that returns a few rows of numbers, as a Spark job.

        None if Spark rejects it, if it would call a function of the user's, which may count its calls, and after the
        time limit of measurements.
        """
        return self._memoize(self._measured, query, self._measure)

    def measure_all(self, queries: tuple[str, ...]) -> tuple[tuple[Numbers, ...] | None, ...]:
        """Run several such queries concurrently."""
        return self._memoize_all(self._measured, queries, self._measure)

    def _measure(self, query: str) -> tuple[Numbers, ...] | None:
        if not may_measure():
            return None
        try:
            if self.measurements is None or not classic(self.session):
                return self._run_measurement(query, query_frame(self.session, query, self.arguments))
            cache, text = self.measurements, (query, repr(self.arguments), self.settings)
            found = cache.find_text(text, self.definitions.entry, self.session)
            if found is None:
                frame = query_frame(self.session, query, self.arguments)
                key = catalog_query(frame)
                found = cache.find(key) if key else None
                if found is None:
                    found = self._run_measurement(query, frame)
                if key and found is not None:
                    cache.keep(key, found)
                    cache.keep_text(text, dict(self.definitions.entries), key, found)
            return found
        except (PySparkException, Py4JError):  # Py4JError: errors of tasks other than Spark's
            return None

    def _run_measurement(self, query: str, frame: DataFrame) -> tuple[Numbers, ...] | None:
        on_connect = not classic(self.session)
        explained = explanation(self.session, query, self.arguments, "cost") if on_connect else ""
        if runs_user_function(explained) or (not on_connect and calls_user_function(frame)):
            return None
        if ONE_TASK in query:
            size = parse_statistics(explained) if on_connect else read_statistics(frame)
            if size.bytes is None or size.bytes >= self.one_task_bytes:
                frame = query_frame(self.session, query.replace(ONE_TASK, ""), self.arguments)
        return _numbers(frame)

    def is_deterministic(self, query: str) -> bool:
        return self.nonrepeatable_reason(query) is None

    def nonrepeatable_reason(self, query: str) -> str | None:
        """Why two reads of ``query`` may return different rows, by Spark's analyzed plan; None if they cannot."""
        return self._memoize(self._nonrepeatable_reasons, query, self._find_nonrepeatable_reason)

    def _find_nonrepeatable_reason(self, query: str) -> str | None:
        if classic(self.session):
            found = self.analyze(query)
            return found if isinstance(found, str) else nonrepeatable_reason(found[0])
        return nonrepeatable_reason_on_connect(self.session, query, self.arguments)


def parse_streams(explained: str) -> int:
    """Count the streams in an EXPLAIN EXTENDED text of a query that reads at least one.

    The text contains each WITH definition once, however often it is read.
    """
    analyzed = explained.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    references = Counter(re.findall(r"~CTERelationRef (\d+)", analyzed))
    again = sum(count - 1 for count in references.values())
    return max(1, len(re.findall(r"^[\s:|+~\-]*Streaming\w*Relation", analyzed, re.MULTILINE)) + again)


def _has_native_engine(settings: dict[str, str]) -> bool:
    """Whether Comet or Gluten is loaded, and not switched off."""
    loaded = f"{settings.get('spark.plugins')},{settings.get('spark.sql.extensions')}"
    return any(
        name in loaded and settings.get(f"spark.{name.lower()}.enabled", "true").lower() == "true"
        for name in ("Comet", "Gluten")
    )


def _numbers(frame: DataFrame) -> tuple[Numbers, ...]:
    with job_name(frame.sparkSession, "Dovetail measures data to plan a query"):
        return _collect(frame)


def _collect(frame: DataFrame) -> tuple[Numbers, ...]:
    return tuple(tuple(None if value is None else float(value) for value in row) for row in rows_of(frame))


def _columns(schema: StructType) -> tuple[Column, ...]:
    return tuple(Column(f.name, sql_type(_type_text(f)), nullable=f.nullable) for f in schema.fields)


def _type_text(field: StructField) -> str:
    """Return the SQL type of a column; the schema reports CHAR as a string, but CHAR is compared with padding."""
    declared = str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))
    return declared if declared.startswith("char(") else field.dataType.simpleString()
