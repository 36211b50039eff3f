"""Run a statement with lookup joins: a view for each lookup, over a DataFrame that fetches when it is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from planner.connectors.source import LookupSource
from planner.connectors.spec import LookupSpec
from planner.physical.base import Physical
from planner.physical.lookup_join import RowLookupJoin
from planner.runtime.batch import Arguments, run
from planner.sql.lookup_views import keys_sql, lookups_of, with_views
from planner.sql.to_sql import to_sql

if TYPE_CHECKING:
    from planner.runtime.lookup.metrics import LookupMetrics


def run_with_lookups(
    session: SparkSession,
    plan: Physical,
    sources: Mapping[str, LookupSource],
    args: Arguments,
    metrics: Mapping[str, LookupMetrics],
) -> DataFrame:
    """The DataFrame of a plan with lookups.  Nothing is fetched before it is run.

    The views have names of their own for each run, and are Spark's to make and to drop: on a classic session they are
    gone when the statement has been analysed, over Connect they travel with it.
    """
    from planner.runtime.lookup.fetched import fetched, joined_rows

    named = with_views(plan, f"_{uuid4().hex[:12]}")
    views: dict[str, DataFrame] = {}
    for number, join in enumerate(lookups_of(named), 1):
        source, spec, counted = sources[join.spec.table], join.spec, metrics.get(join.spec.table)
        left = _run_over(session, keys_sql(named, join), args, views)
        if isinstance(join, RowLookupJoin):
            observed = f"lookup {number}: {spec.table}"
            rows = joined_rows(session, source, spec, left, "nested", join.looked_up, counted, observed)
            rows = rows.withColumnRenamed("matches", join.matches)
        else:
            rows = fetched(session, source, spec, left, counted)
        views[join.view] = rows
    return _run_over(session, to_sql(named), args, views)


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
