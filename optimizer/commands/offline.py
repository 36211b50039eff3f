"""Plans without Spark: against the tables whose columns a catalog file declares."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dovetail.optimizer.advise.planners import OfflinePlanner
from dovetail.optimizer.commands.inputs import Job
from dovetail.planner.catalog import UniqueKey
from dovetail.planner.errors import InputError


def is_offline(job: Job) -> bool:
    """Whether the catalog of a job has the columns of its tables, and no option names other tables or a server."""
    if job.catalog is None or job.tables or job.remote or job.engine:
        return False
    has_columns = any("columns" in body for _, body in job.catalog.tables.values())
    return has_columns and all("columns" in lookup.settings for lookup in job.catalog.lookups.values())


def offline_planner(job: Job, catalog: str) -> OfflinePlanner:
    """A planner over the tables of the catalog file, with the keys of ``--key``."""
    from dovetail.planner.offline_catalog.read_catalog import read_catalog
    from dovetail.planner.sql.table_names import name_of

    found = read_catalog(Path(catalog))
    tables = {found.table_key(table.name): table for table in found.tables}
    for name, columns in job.keys:
        key = found.table_key(name_of(name))
        if key not in tables:
            raise InputError(f"--key {name}={','.join(columns)}: the catalog declares no table {name}")
        tables[key] = replace(tables[key], keys=(*tables[key].keys, UniqueKey(columns)))
    return OfflinePlanner(replace(found, tables=tuple(tables.values())), job.options)
