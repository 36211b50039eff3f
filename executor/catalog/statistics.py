"""Statistics of queries: the estimates of Spark's optimizer, and which plans are cheap to read."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from dovetail.executor.catalog.datafusion_plan import parse_datafusion_statistics
from dovetail.planner.catalog.measure import is_expensive
from dovetail.planner.catalog.stats import UNKNOWN, Statistics

_SIZE = re.compile(r"Statistics\(sizeInBytes=([\d.]+) (B|KiB|MiB|GiB|TiB|PiB|EiB)(?:, rowCount=([\d.E+]+))?")
_BYTES = {unit: 1024**n for n, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}
_UNKNOWN_BYTES = 4 * 1024**6  # Spark returns 8 EiB for unknown sizes
_OPERATOR = re.compile(r"[\s:+\-|]*'?(\w+)")
_PLAIN = frozenset("Project Filter Relation LocalRelation HiveTableRelation InMemoryRelation LogicalRDD Range".split())
_CHEAP = _PLAIN | {"Union", "RelationV2", "DataSourceV2Relation", "DataSourceV2ScanRelation", "OneRowRelation"}
_CUT = re.compile(r"^[\s:+\-|]*(?:Project|Filter)\b.* more fields", re.MULTILINE)  # truncated computed columns
# Guesses for files, of which Spark knows only the bytes: most rows are wider than this, and a Parquet file with three
# columns has about this much metadata.
_ROW_BYTES, _FILE_BYTES = 8, 1_000
_ONE_BY_ONE = ("Project", "Filter")  # operators that return at most the rows that they read


def read_statistics(frame: DataFrame) -> Statistics:
    """Return the estimate for the optimized plan of a classic session's DataFrame."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    found = plan.stats()
    rows = int(str(found.rowCount().get())) if found.rowCount().isDefined() else counted_rows(plan)
    return _statistics(int(str(found.sizeInBytes())), rows, plan.toString())


def parse_statistics(plan: str) -> Statistics:
    """Parse the estimate of the root of an EXPLAIN COST text."""
    found = _SIZE.search(plan)
    if not found:
        return parse_datafusion_statistics(plan)
    size = int(float(found[1]) * _BYTES[found[2]])
    return _statistics(size, int(float(found[3])) if found[3] else None, plan.split("== Physical Plan ==")[0])


def _statistics(size: int, rows: int | None, plan: str) -> Statistics:
    operators = {found[1] for line in plan.splitlines() if (found := _OPERATOR.match(line))}
    cheap = operators <= _CHEAP and not is_expensive(plan) and not _CUT.search(plan)
    if rows is None and size >= _UNKNOWN_BYTES:
        return replace(UNKNOWN, cheap=cheap)
    guessed = max((max(size - _FILE_BYTES, size // 4)) // _ROW_BYTES, min(size, 1))  # 0 would mean empty
    is_guess = rows is None or "Filter" in operators
    return Statistics(guessed if rows is None else rows, size, operators <= _PLAIN, cheap, is_guess)


def counted_rows(plan: Any) -> int | None:
    """The rows of the one table that an optimized plan projects and filters; None if nobody counted them.

    Filters count as if they kept every row, as in Spark's estimate of bytes.
    """
    while plan.nodeName() in _ONE_BY_ONE:
        plan = plan.child()
    if not plan.nodeName().startswith("LogicalRelation"):
        return None
    table = plan.catalogTable()
    statistics = table.get().stats() if table.isDefined() else table
    rows = statistics.get().rowCount() if statistics.isDefined() else statistics
    return int(str(rows.get())) if rows.isDefined() else None
