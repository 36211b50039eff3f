"""Spark sessions with the tables of golden catalogs: one for each catalog file and execution, with its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dovetail.golden_plans.case import Case
from dovetail.golden_plans.planned import catalog_of
from dovetail.optimizer.planning.plan import Plan
from dovetail.planner.bind.names import Resolver
from dovetail.planner.catalog import Settings
from dovetail.planner.expr import quote
from dovetail.planner.logical import Project
from dovetail.planner.logical.base import Logical
from dovetail.planner.offline_catalog.catalog import CatalogFile
from dovetail.planner.sql.lookup_views import with_tables
from dovetail.planner.tree import transform_up
from execution import execute

ARGUMENTS: dict[str, Any] = {
    "carry/parameters": {"low": 1, "tag": "a", "most": 2},
    "carry/positional_parameters": [1, "a"],
    "inside/parameter_elsewhere": {"k": 1},
    "self/parameters_of_another_case": {"a": 5, "A": 25},
    "refused/type_of_a_parameter": {"distance": 5},
}


def plain_lookups(catalog: CatalogFile) -> dict[str, str]:
    """For each lookup of a catalog a view that holds its rows: the name, and the query."""
    return {f"plain_{'_'.join(t.name)}": t.query() for t in catalog.lookups}


def with_plain_lookups(catalog: CatalogFile, plan: Plan) -> str:
    """The query of a statement with such a view in the place of each lookup."""
    tables = {".".join(t.name): f"plain_{'_'.join(t.name)}" for t in catalog.lookups}
    assert plan.logical is not None
    unhinted = transform_up(plan.logical, lambda n: replace(n, hint=None) if isinstance(n, Project) else n)
    assert isinstance(unhinted, Logical)
    return with_tables(unhinted, tables, Resolver(catalog, {}).lookup)


def set_settings(session: Any, settings: Settings) -> None:
    """Give a session the settings of a catalog file."""
    session.conf.set("spark.sql.ansi.enabled", str(settings.ansi).lower())
    session.conf.set("spark.sql.caseSensitive", str(settings.case_sensitive).lower())
    session.conf.set("spark.sql.session.timeZone", settings.time_zone)
    session.conf.set("spark.sql.join.asofJoin.enabled", str(settings.asof_join).lower())
    session.conf.set("spark.sql.crossJoin.enabled", str(settings.nearest_by).lower())
    session.conf.set("spark.sql.timestampType", f"TIMESTAMP_{'NTZ' if settings.timestamp_ntz else 'LTZ'}")
    session.conf.set("spark.sql.ansi.relationPrecedence", str(settings.commas_last).lower())


def golden_sessions(spark: Any) -> Iterator[Callable[[Case, str], Any]]:
    """Yield what gives each case the session of its catalog, in either execution; drops the databases afterwards."""
    sessions: dict[tuple[Path, str], Any] = {}
    databases: set[str] = set()

    def prepare(catalog: CatalogFile, execution: str) -> Any:
        session = spark.newSession()
        execute(session, execution)
        set_settings(session, catalog.settings)
        for table in catalog.tables:
            *database, name = table.name[-2:]
            for part in database:
                session.sql(f"CREATE DATABASE IF NOT EXISTS {quote(part)}")
                databases.add(part)
            if database:
                session.sql(f"CREATE OR REPLACE VIEW {'.'.join(map(quote, (*database, name)))} AS {table.query()}")
            elif table.view:  # with its text, which a view of a DataFrame does not have
                session.sql(f"CREATE OR REPLACE TEMPORARY VIEW {quote(name)} AS {table.query()}")
            else:
                session.sql(table.query()).createOrReplaceTempView(quote(name))
        for name, query in plain_lookups(catalog).items():
            session.sql(query).createOrReplaceTempView(name)
        return session

    def get(case: Case, execution: str) -> Any:
        catalog = catalog_of(case)
        if (catalog.path, execution) not in sessions:
            sessions[catalog.path, execution] = prepare(catalog, execution)
        return sessions[catalog.path, execution]

    yield get
    for name in databases:
        spark.sql(f"DROP DATABASE IF EXISTS {quote(name)} CASCADE")
