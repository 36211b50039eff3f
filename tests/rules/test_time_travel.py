"""AS OF means what Spark means by it wherever Spark takes it: the table decides, which only Spark can tell."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.lookups import find_lookup_references
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.errors import QueryError
from dovetail.planner.offline_catalog.catalog import CatalogFile
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from dovetail.planner.types.schema import Column

LOOKUPS = Path(__file__).parents[2] / "golden_plans" / "catalogs" / "lookups.toml"
JOIN = "SELECT p.order_id, r.rate FROM Payments p JOIN Rates FOR SYSTEM_TIME AS OF {} AS r ON p.currency = r.currency"
CONSTANTS = (":moment", "moment_of_the_session", "CURRENT_TIMESTAMP", "current_timestamp()", "now()", "'2026-01-01'")


class Travels(CatalogFile):
    """A catalog whose tables Spark reads as of a constant, as those of Delta Lake and Iceberg."""

    def schema(self, query: str) -> tuple[Column, ...] | None:
        return () if "AS OF" in query and "p." not in query and "PROCTIME" not in query else None


def catalog_that(*, travels: bool) -> CatalogFile:
    known = read_catalog(LOOKUPS)
    return Travels(**{f.name: getattr(known, f.name) for f in fields(known) if f.init}) if travels else known


def plan(time: str, *, travels: bool) -> Plan:
    return plan_sql(JOIN.format(time), catalog_that(travels=travels), Options(strict=True))


@pytest.mark.parametrize("time", CONSTANTS)
def test_spark_reads_a_table_that_it_can_read_as_of_a_constant(time: str) -> None:
    found = plan(time, travels=True)
    assert found.error is None
    assert not found.rewritten
    assert find_lookup_references(found, catalog_that(travels=True)) == []


@pytest.mark.parametrize("time", ["p.paid", "PROCTIME()", "p.proc_time"])
def test_a_time_of_the_row_is_one_of_the_declared_versions(time: str) -> None:
    assert plan(time, travels=True).rewritten


@pytest.mark.parametrize("time", ["CURRENT_TIMESTAMP", "current_timestamp()", "now()", "PROCTIME()"])
def test_the_present_is_one_of_the_declared_versions_where_spark_has_no_others(time: str) -> None:
    assert plan(time, travels=False).rewritten


def test_a_variable_is_a_constant_of_a_table_without_versions_too() -> None:
    text = "SELECT p.order_id FROM Payments p JOIN Orders TIMESTAMP AS OF moment AS o ON p.order_id = o.order_id"
    found = plan_sql(text, catalog_that(travels=True), Options(strict=True))
    assert find_lookup_references(found, catalog_that(travels=True)) == []
    with pytest.raises(QueryError, match="neither a lookup nor a table with versions"):
        find_lookup_references(found, catalog_that(travels=False))
