"""Golden cases over tables of one format, as JSON lines.

``python goldens_main.py FORMAT JARS PART/PARTS`` creates the tables of each catalog in the format, plans every case,
whatever it costs, and runs each rewriting next to the statement as written.  A line has the plan, for the comparison
with the plan over Parquet, and how the rows differ.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any
from zlib import crc32

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connect_goldens_main import declare
from dovetail import Optimizer
from dovetail.golden_plans.case import Case, read_case
from dovetail.golden_plans.planned import catalog_of, options_of
from dovetail.optimizer.planning.plan import Plan
from dovetail.planner.errors import DovetailError
from dovetail.planner.expr import quote
from dovetail.planner.offline_catalog.catalog import CatalogFile, Table
from dovetail.planner.sql.lookup_views import lookups_of
from execution import INTERPRETED, execute
from format_sessions import PARQUET, start
from golden_sessions import ARGUMENTS, plain_lookups, set_settings
from outcomes import first_line, rows

CASES = Path(__file__).parents[2] / "golden_plans" / "cases"
HOME = "golden"  # the database of tables whose names have none


def main(form: str, jars: list[str], part: int, parts: int) -> None:
    """Print a line for each case, and one for each table that the format cannot hold."""
    cases = [
        case for case in map(read_case, sorted(CASES.rglob("*.plan"))) if crc32(case.name.encode()) % parts == part
    ]
    by_catalog = sorted(cases, key=lambda case: str(catalog_of(case).path))
    with tempfile.TemporaryDirectory() as folder:
        spark = start(form, Path(folder), jars)
        for _, group in groupby(by_catalog, lambda case: catalog_of(case).path):
            some = list(group)
            for line in run_catalog(spark, form, catalog_of(some[0]), some):
                print(json.dumps(line), flush=True)


def run_catalog(spark: SparkSession, form: str, catalog: CatalogFile, cases: list[Case]) -> Iterator[dict[str, Any]]:
    """Create the tables of a catalog, try its cases, and drop the tables."""
    session = spark.newSession()
    execute(session, INTERPRETED)
    set_settings(session, catalog.settings)
    databases = dict.fromkeys([HOME, *(part for table in catalog.tables for part in table.name[-2:-1])])
    for database in databases:
        session.sql(f"CREATE DATABASE IF NOT EXISTS {quote(database)}")
    session.sql(f"USE {HOME}")
    for table in catalog.tables:
        if why := create(session, form, table):
            yield {"table": f"{catalog.path.stem}.{'.'.join(table.name)}", "not held": why}
    for name, query in plain_lookups(catalog).items():
        session.sql(query).createOrReplaceTempView(name)
    optimizers: dict[Any, Optimizer] = {}
    for case in cases:
        options = replace(options_of(case), force=True)
        if options not in optimizers:
            optimizers[options] = Optimizer(session, options)
            declare(optimizers[options], catalog)
        yield {"case": case.name, **try_case(session, optimizers[options], case)}
    session.sql("USE default")
    for table in catalog.tables:  # by name: Iceberg's session catalog lists none of its tables
        full = ".".join(map(quote, (HOME, *table.name)[-2:]))
        for kind in ("TABLE", "VIEW"):
            with suppress(PySparkException):  # a view in place of a table
                session.sql(f"DROP {kind} IF EXISTS {full}")
    for database in databases:
        session.sql(f"DROP DATABASE IF EXISTS {quote(database)} CASCADE")


def create(session: SparkSession, form: str, table: Table) -> str:
    """Create a table of a catalog file; as a view if the format cannot hold it, with the reason."""
    *database, name = table.name[-2:]
    full = ".".join(map(quote, (*database, name)))
    if table.view:
        kind = "VIEW" if database else "TEMPORARY VIEW"
        session.sql(f"CREATE OR REPLACE {kind} {full} AS {table.query()}")
        return ""
    try:
        session.sql(f"CREATE TABLE {full} USING {form} AS {table.query()}")
    except Exception as error:  # noqa: BLE001 - of Spark, or of the format in the JVM
        with suppress(Exception):
            session.sql(f"DROP TABLE IF EXISTS {full}")
        if database:
            session.sql(f"CREATE OR REPLACE VIEW {full} AS {table.query()}")
        else:
            session.sql(table.query()).createOrReplaceTempView(quote(name))
        return first_line(error)
    return ""


def try_case(session: SparkSession, opt: Optimizer, case: Case) -> dict[str, Any]:
    """Plan a case, and compare the rows of its rewriting."""
    arguments = ARGUMENTS.get(case.name)
    try:
        plan = opt.plan(case.sql, arguments)
    except (DovetailError, PySparkException) as error:
        return {"error": first_line(error)}
    found: dict[str, Any] = {
        "rules": plan.rules,
        "sql": plan.sql(),
        "declined": sorted({d.reason for d in plan.declined}),
    }
    if plan.rewritten and not lookups_of(plan.physical) and opt.options.strict:
        found["rows"] = compare(session, plan, arguments)
    return found


def compare(session: SparkSession, plan: Plan, arguments: Any) -> str:
    """How the rows of a rewriting differ from those of the statement as written: "equal" if they do not."""
    try:
        before = session.sql(plan.query, args=arguments)
        schema, wanted = before.schema, rows(before)
    except PySparkException as error:
        return f"Spark alone: {first_line(error)}"
    try:
        after = session.sql(plan.rewritten_query, args=arguments)
        if after.schema != schema:
            return f"{after.schema} in the place of {schema}"
        found = rows(after)
    except PySparkException as error:
        return f"rewritten: {first_line(error)}"
    return "equal" if wanted == found else f"{found - wanted} in the place of {wanted - found}"


if __name__ == "__main__":
    number, count = map(int, sys.argv[3].split("/"))
    main(sys.argv[1], sys.argv[2].split(",") if sys.argv[1] != PARQUET else [], number - 1, count)
    os._exit(0)
