"""Run a statement with holes: a view for each, over a DataFrame that fetches when it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from planner.connectors.source import LookupSource
from planner.connectors.spec import LookupSpec
from planner.physical.base import Physical
from planner.physical.lookup_join import LookupJoin, RowLookupJoin
from planner.runtime.batch import Arguments, run
from planner.sql.lookup_views import holes_of, needs_sql, with_views
from planner.sql.to_sql import to_sql

if TYPE_CHECKING:
    from planner.runtime.lookup.metrics import LookupMetrics

    Sources = Mapping[str, LookupSource]
    Metrics = Mapping[str, LookupMetrics]


def run_with_lookups(
    session: SparkSession,
    plan: Physical,
    sources: Sources,
    args: Arguments,
    metrics: Metrics,
) -> DataFrame:
    """The DataFrame of a plan with holes.  Nothing is fetched before it is run.

    The views have names of their own for each run, and are Spark's to make and to drop: on a classic session they are
    gone when the statement has been analysed, over Connect they travel with it.
    """
    named = with_views(plan, f"_{uuid4().hex[:12]}")
    views: dict[str, DataFrame] = {}
    for number, hole in enumerate(holes_of(named), 1):
        rows = _run_over(session, needs_sql(named, hole), args, views)
        views[hole.view] = _FILLERS[hole.filler](session, hole, rows, sources, metrics, number)
    return _run_over(session, to_sql(named), args, views)


def _rows_of_keys(
    session: SparkSession, join: LookupJoin, keys: DataFrame, sources: Sources, metrics: Metrics, number: int
) -> DataFrame:
    from planner.runtime.lookup.fetched import fetched

    return fetched(session, sources[join.spec.table], join.spec, keys, metrics.get(join.spec.table))


def _rows_with_found(
    session: SparkSession, join: RowLookupJoin, left: DataFrame, sources: Sources, metrics: Metrics, number: int
) -> DataFrame:
    from planner.runtime.lookup.fetched import joined_rows

    spec, observed = join.spec, f"lookup {number}: {join.spec.table}"
    source, counted = sources[spec.table], metrics.get(spec.table)
    rows = joined_rows(session, source, spec, left, "nested", join.looked_up, counted, observed)
    return rows.withColumnRenamed("matches", join.matches)


# Who fills a view, given the rows that it needs.
_FILLERS: dict[str, Callable[..., DataFrame]] = {
    LookupJoin.filler: _rows_of_keys,
    RowLookupJoin.filler: _rows_with_found,
}


def _run_over(session: SparkSession, text: str, args: Arguments, views: Mapping[str, DataFrame]) -> DataFrame:
    """``session.sql`` with DataFrames under the names that a text has for them."""
    named: dict[str, Any] = {name: frame for name, frame in views.items() if name in text}
    if not named:
        return run(session, text, args)
    for brace in "{}":
        text = text.replace(brace, 2 * brace)
    for name in named:
        text = re.sub(rf"\b{name}\b", f"{{{name}}}", text)
    return session.sql(text, args=args, **named) if args else session.sql(text, **named)


@contextmanager
def whole_tables(session: SparkSession, sources: Mapping[str, LookupSource]) -> Iterator[dict[str, str]]:
    """A view with all rows of each source, by its name; gone at the end."""
    from planner.runtime.lookup.fetched import fetched, source_schema

    views: dict[str, str] = {}
    try:
        for name, source in sources.items():
            schema = source_schema(session, source)
            columns = tuple(schema.fieldNames())
            spec = LookupSpec(name, columns[:1], columns, full_load=True)
            none = session.createDataFrame([], schema).select(schema.fields[0].name)
            views[name] = f"__dt_whole_{uuid4().hex[:12]}"
            fetched(session, source, spec, none).createOrReplaceTempView(views[name])
        yield views
    finally:
        for view in views.values():
            session.catalog.dropTempView(view)
