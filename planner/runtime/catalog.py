"""A Spark session as a catalog: tables, settings, statistics.  Works on classic and Connect sessions alike."""

from __future__ import annotations

import re
from functools import cached_property
from math import inf, isnan
from time import perf_counter

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from planner.catalog import Settings
from planner.physical.band_join import length_classes
from planner.runtime.batch import Arguments, analysed, run
from planner.schema import Column, sql_type
from planner.stats import UNKNOWN, LengthClass, Statistics

_SIZE = re.compile(r"Statistics\(sizeInBytes=([\d.]+) (B|KiB|MiB|GiB|TiB|PiB|EiB)(?:, rowCount=([\d.E+]+))?")
_BYTES = {unit: 1024**n for n, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}
_UNKNOWN_BYTES = 4 * 1024**6  # Spark says 8 EiB where it does not know
_ROW_BYTES = 8  # a guess for files, where Spark knows bytes only: rows are more often wider than narrower


class SparkCatalog:
    """What one planning asks of a session; asks each question once.

    ``arguments`` are the statement's parameters, which pieces of it may name; ``seconds`` is the time spent asking.
    """

    def __init__(self, session: SparkSession, arguments: Arguments = None):
        self.session = session
        self.arguments = arguments
        self.seconds = 0.0
        self._statistics: dict[str, Statistics] = {}
        self._schemas: dict[str, tuple[Column, ...] | None] = {}

    @cached_property
    def settings(self) -> Settings:
        """The settings of the session that decide what SQL means."""
        start = perf_counter()

        def get(name: str, default: str) -> str:
            return self.session.conf.get(name, default) or default

        found = Settings(
            ansi=get("spark.sql.ansi.enabled", "true").lower() == "true",
            case_sensitive=get("spark.sql.caseSensitive", "false").lower() == "true",
            time_zone=get("spark.sql.session.timeZone", "UTC"),
        )
        self.seconds += perf_counter() - start
        return found

    def columns(self, name: tuple[str, ...]) -> tuple[Column, ...] | None:
        """The columns of a table or view, or None when Spark finds no such table."""
        start = perf_counter()
        try:
            quoted = ".".join("`" + part.replace("`", "``") + "`" for part in name)
            schema = self.session.table(quoted).schema
        except PySparkException:
            return None
        finally:
            self.seconds += perf_counter() - start
        return _columns(schema)

    def schema(self, query: str) -> tuple[Column, ...] | None:
        """The columns of a query as Spark analyses it, or None when Spark does not take it."""
        if query not in self._schemas:
            start = perf_counter()
            found = analysed(self.session, query, self.arguments)
            self._schemas[query] = None if isinstance(found, str) else _columns(found[1])
            self.seconds += perf_counter() - start
        return self._schemas[query]

    def statistics(self, relation: str) -> Statistics:
        """Spark's own estimate for a query, from EXPLAIN COST; the query does not run."""
        if relation not in self._statistics:
            start = perf_counter()
            try:
                said = run(self.session, f"EXPLAIN COST {relation}", self.arguments).collect()[0][0]
                self._statistics[relation] = read_statistics(said)
            except PySparkException:
                self._statistics[relation] = UNKNOWN
            self.seconds += perf_counter() - start
        return self._statistics[relation]

    def lengths(self, query: str, *, few: bool) -> tuple[LengthClass, ...] | None:
        """Sort the lengths that ``query`` returns into classes; a Spark job over the intervals, a few rows back."""
        start = perf_counter()
        try:
            rows = run(self.session, length_classes(query, few=few), self.arguments).collect()
        except PySparkException:
            return None
        finally:
            self.seconds += perf_counter() - start
        classes = (LengthClass(int(n), float(total), float(longest)) for n, total, longest in rows)
        return tuple(sorted(classes, key=lambda c: inf if isnan(c.longest) else c.longest))


def _columns(schema: StructType) -> tuple[Column, ...]:
    return tuple(Column(f.name, sql_type(f.dataType.simpleString())) for f in schema.fields)


def read_statistics(plan: str) -> Statistics:
    """Read the estimate for the root of an EXPLAIN COST text."""
    found = _SIZE.search(plan)
    if not found:
        return UNKNOWN
    size = int(float(found[1]) * _BYTES[found[2]])
    if found[3]:
        return Statistics(int(float(found[3])), size)
    return UNKNOWN if size >= _UNKNOWN_BYTES else Statistics(size // _ROW_BYTES, size)
