"""Spark sessions with the tables of golden catalogs: for each catalog file one, with its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from golden_plans.case import Case
from golden_plans.catalog import CatalogFile
from golden_plans.planned import catalog_of
from planner.expr import quote
from sessions import for_few_rows


def plain_lookups(catalog: CatalogFile) -> dict[str, str]:
    """For each lookup of a catalog a view that holds its rows: the name, and the query."""
    return {f"plain_{'_'.join(t.name)}": t.query() for t in catalog.lookups}


def golden_sessions(spark: Any) -> Iterator[Callable[[Case], Any]]:
    """Yield what gives each case the session of its catalog; drops the databases afterwards."""
    sessions: dict[Path, Any] = {}
    databases: set[str] = set()

    def prepare(catalog: CatalogFile) -> Any:
        session = for_few_rows(spark)
        session.conf.set("spark.sql.ansi.enabled", str(catalog.settings.ansi).lower())
        session.conf.set("spark.sql.caseSensitive", str(catalog.settings.case_sensitive).lower())
        session.conf.set("spark.sql.session.timeZone", catalog.settings.time_zone)
        session.conf.set("spark.sql.join.asofJoin.enabled", str(catalog.settings.asof_join).lower())
        ntz = "NTZ" if catalog.settings.timestamp_ntz else "LTZ"
        session.conf.set("spark.sql.timestampType", f"TIMESTAMP_{ntz}")
        session.conf.set("spark.sql.ansi.relationPrecedence", str(catalog.settings.commas_last).lower())
        for table in catalog.tables:
            *database, name = table.name[-2:]
            for part in database:
                session.sql(f"CREATE DATABASE IF NOT EXISTS {quote(part)}")
                databases.add(part)
            if database:
                session.sql(f"CREATE OR REPLACE VIEW {'.'.join(map(quote, (*database, name)))} AS {table.query()}")
            else:
                session.sql(table.query()).createOrReplaceTempView(quote(name))
        for name, query in plain_lookups(catalog).items():
            session.sql(query).createOrReplaceTempView(name)
        return session

    def get(case: Case) -> Any:
        catalog = catalog_of(case)
        if catalog.path not in sessions:
            sessions[catalog.path] = prepare(catalog)
        return sessions[catalog.path]

    yield get
    for name in databases:
        spark.sql(f"DROP DATABASE IF EXISTS {quote(name)} CASCADE")
