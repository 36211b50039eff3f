"""Plans the statements of a job: without Spark where a catalog file declares the columns, else on a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dovetail.optimizer.advise.planners import OfflinePlanner, SessionWorkloadPlanner, WorkloadPlanner
from dovetail.optimizer.commands.catalog import CatalogFile
from dovetail.optimizer.commands.inputs import Job
from dovetail.planner.catalog import UniqueKey
from dovetail.planner.errors import InputError


@contextmanager
def planner_for(job: Job, *, measure: bool = False, needs_spark: bool = False) -> Iterator[WorkloadPlanner]:
    """A planner over the tables of the catalog file if it has their columns, else one on a session.

    ``measure``: its ``verify`` measures each way as well.
    """
    if job.catalog is not None and not needs_spark and _is_offline(job, job.catalog):
        yield _offline_planner(job, job.catalog)
        return
    from dovetail.optimizer.commands.work import optimizer_for

    with optimizer_for(job) as opt:
        yield SessionWorkloadPlanner(opt, measure=measure)


def _is_offline(job: Job, catalog: CatalogFile) -> bool:
    """Whether the catalog of a job has the columns of its tables, and no option names other tables or a server."""
    if job.tables or job.remote or job.engine:
        return False
    has_columns = any("columns" in body for _, body in catalog.tables.values())
    return has_columns and all("columns" in lookup.settings for lookup in catalog.lookups.values())


def _offline_planner(job: Job, catalog: CatalogFile) -> OfflinePlanner:
    """A planner over the tables of the catalog file, with the keys of ``--key``."""
    from dovetail.planner.offline_catalog.read_catalog import read_catalog
    from dovetail.planner.sql.table_names import name_of

    found = read_catalog(Path(catalog.path))
    tables = {found.table_key(table.name): table for table in found.tables}
    for name, columns in job.keys:
        key = found.table_key(name_of(name))
        if key not in tables:
            raise InputError(f"--key {name}={','.join(columns)}: the catalog declares no table {name}")
        tables[key] = replace(tables[key], keys=(*tables[key].keys, UniqueKey(columns)))
    return OfflinePlanner(replace(found, tables=tuple(tables.values())), job.options)
