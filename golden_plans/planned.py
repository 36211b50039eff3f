"""Plans the SQL of a case against its catalog with its options, and caches the plan."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from dovetail.golden_plans.case import Case
from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.lookups import make_missing_time_error
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.optimizer.streams.queries import StreamPlanner, StreamQuery
from dovetail.planner.errors import OptionError, RuleError, one_of
from dovetail.planner.offline_catalog.catalog import CatalogFile
from dovetail.planner.offline_catalog.measured import Measured
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from dovetail.planner.state.stream import Stream


def catalog_of(case: Case) -> CatalogFile:
    """The catalog that a case names.  Raises ``GoldenError`` when there is none, ``CatalogError`` for a broken one."""
    folders = list(case.path.parents)
    header = next(iter(case.values("catalog")), None)
    if header is None:
        case.fail(f"there is no `-- catalog:` line; {one_of(_catalogs(folders), '')}")
    name = header.value
    if name.endswith(".toml"):
        tries = [case.path.parent / name]
    else:
        tries = [f / inside / f"{name}.toml" for f in folders for inside in ("catalogs", "")]
    found = next((p for p in tries if p.is_file()), None)
    if found is None:
        case.fail(f"there is no catalog {name!r}; {one_of(_catalogs(folders), name)}", header.line)
    return read_catalog(found)


def _catalogs(folders: list[Path]) -> set[str]:
    """The catalogs that a case in the first of these folders could name."""
    beside = [p for p in folders[0].glob("*.toml") if p.stem != "pyproject"]
    return {p.stem for p in [*beside, *(p for f in folders for p in f.glob("catalogs/*.toml"))]}


def options_of(case: Case) -> Options:
    """The options of a case.  Raises ``GoldenError`` for one that does not exist."""
    given: dict[str, str] = {}
    options = Options(strict=True)
    for header in case.values("option"):
        name, equals, value = (part.strip() for part in header.value.partition("="))
        if not equals or name in given:
            case.fail(f"an option is written `-- option: name = value`, once, not {header.value!r}", header.line)
        given[name] = value
        try:
            options = Options.from_mapping({name: value}, options)
        except OptionError as error:
            case.fail(str(error), header.line)
    return options


def plan_case(case: Case) -> Plan:
    """Plan the SQL of a case.  Raises ``GoldenError`` for a wrong option or a rule that broke a promise."""
    return measured_plan(case)[0]


def measured_plan(case: Case) -> tuple[Plan, tuple[Measured, ...]]:
    """Plan the SQL of a case; returns the plan and the measurement queries, without duplicates."""
    options = options_of(case)
    try:
        return _planned(case.sql, catalog_of(case), options)
    except RuleError as error:
        case.fail(f"a rule broke a promise: {error}")


def stream_plan(case: Case, catalog: CatalogFile) -> str:
    """Explain how ``opt.stream`` runs the SQL of a case that joins streams; empty for other cases."""
    if catalog.streams(case.sql) < 2:
        return ""

    def find(name: tuple[str, ...]) -> Stream | None:
        table = catalog.table(name)
        if table is None or not table.stream:
            return None
        return Stream(tuple((c.name, c.type.text if c.type else "") for c in table.columns), table.watermark)

    return StreamPlanner(catalog, options_of(case), find).plan(StreamQuery(case.sql)).explain()


@cache
def _planned(sql: str, catalog: CatalogFile, options: Options) -> tuple[Plan, tuple[Measured, ...]]:
    """Plan and cache; plans and catalogs are immutable, and a changed file is another catalog."""
    catalog.measured.clear()
    plan = plan_sql(sql, catalog, options)
    if plan.logical and not plan.error and (error := make_missing_time_error(plan.logical, catalog)):
        plan = replace(plan, rewriting=None, error=error)
    return plan, tuple(dict.fromkeys(catalog.measured))
