"""Every golden plan that rewrites is also run: the same rows and the same schema as the statement as written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from golden_plans.case import Case, catalog_of, plan_case, read_case
from golden_plans.catalog_file import CatalogFile
from optimizer.plan import Plan
from planner.errors import DovetailError
from planner.expr import quote
from planner.logical import Statement

SHIPPED = Path(__file__).parents[2] / "golden_plans" / "cases"
ARGUMENTS: dict[str, Any] = {
    "inside/parameter_elsewhere": {"k": 1},
    "carry/parameters": {"low": 1, "tag": "a", "most": 2},
    "carry/positional_parameters": [1, "a"],
    "refused/type_of_a_parameter": {"distance": 5},
}


def cases() -> list[Case]:
    return [read_case(path) for path in sorted(SHIPPED.rglob("*.plan"))]


def rewritten() -> list[Any]:
    """The cases with their plans; a case that cannot be planned fails where golden plans are compared."""
    found = []
    for case in cases():
        try:
            plan = plan_case(case)
        except DovetailError:
            continue
        if plan.rewritten:
            found.append(pytest.param(case, plan, id=case.name))
    return found


def query_of(plan: Plan, text: str) -> str:
    """The query of a statement: an INSERT or CREATE is not run."""
    head = plan.logical.prefix if isinstance(plan.logical, Statement) else ""
    return text[len(head) :].rstrip().removesuffix(";")


@pytest.fixture(scope="module")
def session_for(spark):
    """A session for each catalog file, with its settings, and its tables as views."""
    sessions: dict[Path, Any] = {}
    databases: set[str] = set()

    def prepare(catalog: CatalogFile) -> Any:
        session = spark.newSession()
        session.conf.set("spark.sql.ansi.enabled", str(catalog.settings.ansi).lower())
        session.conf.set("spark.sql.caseSensitive", str(catalog.settings.case_sensitive).lower())
        session.conf.set("spark.sql.session.timeZone", catalog.settings.time_zone)
        session.conf.set("spark.sql.codegen.wholeStage", "false")  # a few rows do not repay a compiler
        for table in catalog.tables:
            *database, name = table.name[-2:]
            for part in database:
                session.sql(f"CREATE DATABASE IF NOT EXISTS {quote(part)}")
                databases.add(part)
            kind = "VIEW" if database else "TEMPORARY VIEW"
            session.sql(f"CREATE OR REPLACE {kind} {'.'.join(map(quote, (*database, name)))} AS {table.query()}")
        return session

    def get(case: Case) -> Any:
        catalog = catalog_of(case)
        if catalog.path not in sessions:
            sessions[catalog.path] = prepare(catalog)
        return sessions[catalog.path]

    yield get
    for name in databases:
        spark.sql(f"DROP DATABASE IF EXISTS {quote(name)} CASCADE")


@pytest.mark.parametrize(("case", "plan"), rewritten())
def test_the_rewriting_returns_what_the_statement_returns(session_for, case, plan):
    session, args = session_for(case), ARGUMENTS.get(case.name)
    before = session.sql(query_of(plan, case.sql), args=args)
    after = session.sql(query_of(plan, plan.sql()), args=args)
    assert after.schema == before.schema
    wanted, found = (Counter(map(repr, frame.collect())) for frame in (before, after))
    assert found == wanted
    assert bool(wanted) != (case.name in EMPTY), "a case without rows proves little"


EMPTY = {"band/distance_empty"}
