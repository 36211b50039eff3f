"""Runs a plan with lookup joins: each reads a view over a DataFrame that fetches when it is read."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from dovetail.executor.connectors.source import LookupSource
from dovetail.executor.session.batch import Arguments
from dovetail.executor.session.named_frames import run_over_frames
from dovetail.executor.session.temporary_views import drop_view
from dovetail.planner.logical.lookup_spec import LookupSpec
from dovetail.planner.physical.base import Physical
from dovetail.planner.physical.lookup_join import LookupJoin
from dovetail.planner.physical.row_lookup_join import RowLookupJoin
from dovetail.planner.sql.lookup_views import lookups_of, needs_sql, with_views
from dovetail.planner.sql.to_sql import to_sql

if TYPE_CHECKING:
    from dovetail.executor.lookup.fetch_rows import Lookup
    from dovetail.executor.lookup.metrics import LookupMetrics


_LOG = logging.getLogger("dovetail.lookup")


@dataclass(frozen=True)
class Lookups:
    """The sources of lookup tables, and what counts the requests to them, by table."""

    sources: Mapping[str, LookupSource]
    metrics: Mapping[str, LookupMetrics] = field(default_factory=dict)


def run_with_lookups(
    session: SparkSession,
    plan: Physical,
    lookups: Lookups,
    args: Arguments = None,
    frames: Mapping[str, DataFrame] | None = None,
) -> DataFrame:
    """Return the DataFrame of a plan with lookup joins.  Nothing is fetched before it runs.

    ``frames``: DataFrames that the plan reads, by name.

    The views have unique names for each run: a classic session drops them after the analysis of the statement, and
    Connect sends them with it.
    """
    named = with_views(plan, f"_{uuid4().hex[:12]}")
    views: dict[str, DataFrame] = dict(frames or {})
    for number, join in enumerate(lookups_of(named), 1):
        rows = run_over_frames(session, needs_sql(named, join), args, views)
        table = join.spec.table
        views[join.view] = _fetched(join, rows, lookups.sources[table], lookups.metrics.get(table), number)
    return run_over_frames(session, to_sql(named), args, views)


def _fetched(
    join: LookupJoin, rows: DataFrame, source: LookupSource, metrics: LookupMetrics | None, number: int
) -> DataFrame:
    """The rows of the view of a lookup join, given the rows that it needs."""
    from dovetail.executor.lookup.fetch_rows import Lookup, fetch_rows

    spec = join.spec
    how = "read as a whole" if spec.full_load else f"fetched by {', '.join(spec.keys)}"
    _LOG.info("The rows of the lookup table %s are %s", spec.table, how)
    lookup = Lookup(source, spec, metrics)
    return _with_matches(join, rows, lookup, number) if isinstance(join, RowLookupJoin) else fetch_rows(lookup, rows)


def _with_matches(join: RowLookupJoin, left: DataFrame, lookup: Lookup, number: int) -> DataFrame:
    from dovetail.executor.lookup.fetch_rows import add_matches

    rows = add_matches(lookup, left, join.looked_up, f"lookup {number}: {join.spec.table}")
    metadata = {field.name: field.metadata for field in left.schema.fields}  # which Python does not return
    columns = [col(name).alias(name, metadata=metadata[name]) for name in rows.columns if name in metadata]
    return rows.select(*columns, col("matches").alias(join.matches))


@contextmanager
def whole_tables(session: SparkSession, sources: Mapping[str, LookupSource]) -> Iterator[dict[str, str]]:
    """Define a view with all rows of each source inside the block; return the views by source."""
    from dovetail.executor.lookup.fetch_rows import Lookup, fetch_rows, source_schema

    views: dict[str, str] = {}
    try:
        for name, source in sources.items():
            schema = source_schema(session, source)
            columns = tuple(schema.fieldNames())
            spec = LookupSpec(name, columns[:1], columns, full_load=True)
            none = session.createDataFrame([], schema).select(schema.fields[0].name)
            views[name] = f"__dt_whole_{uuid4().hex[:12]}"
            fetch_rows(Lookup(source, spec), none).createOrReplaceTempView(views[name])
        yield views
    finally:
        for view in views.values():
            drop_view(session, view)
