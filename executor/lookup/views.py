"""Runs a plan with fetched views: each is a view over a DataFrame that fetches when it is read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
from dovetail.planner.sql.lookup_views import fetched_views, needs_sql, with_views
from dovetail.planner.sql.to_sql import to_sql

if TYPE_CHECKING:
    from dovetail.executor.lookup.metrics import LookupMetrics

    Sources = Mapping[str, LookupSource]
    Metrics = Mapping[str, LookupMetrics]


_LOG = logging.getLogger("dovetail.lookup")


def run_with_lookups(
    session: SparkSession,
    plan: Physical,
    sources: Sources,
    args: Arguments,
    metrics: Metrics,
    frames: Mapping[str, DataFrame] | None = None,
) -> DataFrame:
    """Return the DataFrame of a plan with fetched views.  Nothing is fetched before it runs.

    ``frames``: DataFrames that the plan reads, by name.

    The views have unique names for each run: a classic session drops them after the analysis of the statement, and
    Connect sends them with it.
    """
    named = with_views(plan, f"_{uuid4().hex[:12]}")
    views: dict[str, DataFrame] = dict(frames or {})
    for number, view in enumerate(fetched_views(named), 1):
        rows = run_over_frames(session, needs_sql(named, view), args, views)
        views[view.view] = _FILLERS[view.filler](session, view, rows, sources, metrics, number)
    return run_over_frames(session, to_sql(named), args, views)


def _rows_of_keys(
    session: SparkSession, join: LookupJoin, keys: DataFrame, sources: Sources, metrics: Metrics, number: int
) -> DataFrame:
    from dovetail.executor.lookup.fetch_rows import fetch_rows

    _log(join.spec)
    return fetch_rows(session, sources[join.spec.table], join.spec, keys, metrics.get(join.spec.table))


def _rows_with_found(
    session: SparkSession, join: RowLookupJoin, left: DataFrame, sources: Sources, metrics: Metrics, number: int
) -> DataFrame:
    from dovetail.executor.lookup.fetch_rows import join_rows

    _log(join.spec)
    spec, observed = join.spec, f"lookup {number}: {join.spec.table}"
    source, counted = sources[spec.table], metrics.get(spec.table)
    rows = join_rows(session, source, spec, left, "nested", join.looked_up, counted, observed)
    metadata = {field.name: field.metadata for field in left.schema.fields}  # which Python does not return
    columns = [col(name).alias(name, metadata=metadata[name]) for name in rows.columns if name in metadata]
    return rows.select(*columns, col("matches").alias(join.matches))


def _log(spec: LookupSpec) -> None:
    how = "read as a whole" if spec.full_load else f"fetched by {', '.join(spec.keys)}"
    _LOG.info("The rows of the lookup table %s are %s", spec.table, how)


# Functions that fill a view, given the rows that it needs.
_FILLERS: dict[str, Callable[..., DataFrame]] = {
    LookupJoin.filler: _rows_of_keys,
    RowLookupJoin.filler: _rows_with_found,
}


@contextmanager
def whole_tables(session: SparkSession, sources: Mapping[str, LookupSource]) -> Iterator[dict[str, str]]:
    """Define a view with all rows of each source inside the block; return the views by source."""
    from dovetail.executor.lookup.fetch_rows import fetch_rows, source_schema

    views: dict[str, str] = {}
    try:
        for name, source in sources.items():
            schema = source_schema(session, source)
            columns = tuple(schema.fieldNames())
            spec = LookupSpec(name, columns[:1], columns, full_load=True)
            none = session.createDataFrame([], schema).select(schema.fields[0].name)
            views[name] = f"__dt_whole_{uuid4().hex[:12]}"
            fetch_rows(session, source, spec, none).createOrReplaceTempView(views[name])
        yield views
    finally:
        for view in views.values():
            drop_view(session, view)
