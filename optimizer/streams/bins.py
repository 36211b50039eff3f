"""Plans band joins of streams as Spark's own join, with the bin number as the equality that it needs.

Any query may stand above such a join: an aggregate, DISTINCT, another join.  Without an equality Spark cannot run it.
With one, bins add copies of rows to Spark's state, so they are used only if the user requests them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dovetail.executor.state.pinned import Pinned, check_pinned, read_pinned, write_pinned
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.statement import plan_over_bins
from dovetail.planner.catalog import Catalog
from dovetail.planner.errors import QueryError
from dovetail.planner.logical import BandJoin, Cte, Logical, Scan
from dovetail.planner.physical.key_join import KeyJoin
from dovetail.planner.state.fingerprint import Given
from dovetail.planner.state.spec import MEANING, described_settings
from dovetail.rules.band_join.keys import has_keys_of_both_sides
from dovetail.rules.context import Context
from dovetail.rules.stream.relations import Find

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_LOG = logging.getLogger("dovetail.stream")


def plan_stream_bins(text: str, catalog: Catalog, options: Any, find: Find, *, requested: bool | None) -> Plan | None:
    """Plan a query with bins in its joins of streams; None if it has no such join, or if Spark needs no bins.

    ``find`` returns the stream behind a name.  ``requested``: use bins even if Spark could run the query without them.
    """
    plan = plan_over_bins(text, catalog, options)
    if plan.physical is None or plan.optimized is None or not plan.rewritten or plan.required:
        return None
    if not any(isinstance(node, KeyJoin) for node in plan.physical.walk()):
        return None
    definitions = {node.key: node for node in plan.optimized.walk() if isinstance(node, Cte)}
    ctx = Context(catalog, options, options.force, definitions)
    joins = _joins_of_streams(plan.optimized, definitions, find)
    return plan if any(requested or not has_keys_of_both_sides(join, ctx) for join in joins) else None


def _joins_of_streams(plan: Logical, definitions: Mapping[str, Cte], find: Find) -> Iterator[BandJoin]:
    def reads_stream(relation: Logical) -> bool:
        scans = (node for node in relation.walk() if isinstance(node, Scan))
        return any(reads_stream(definitions[s.cte].query) if s.cte else find(s.name) is not None for s in scans)

    for join in plan.walk():
        if isinstance(join, BandJoin) and reads_stream(join.left) and reads_stream(join.right):
            yield join


def pinned_statement(
    session: SparkSession, plan: Plan | None, text: str, given: Given | None, checkpoint: str | Path
) -> str | None:
    """Return the statement over bins that a checkpoint started with, or starts with now; None for the original text.

    ``given`` is the ``text`` with its arguments, if it has any.  Raises ``StateError`` if the checkpoint belongs to
    another query, and ``QueryError`` if the statement has no place to be stored.
    """
    from dovetail.executor.state.files import open_folder
    from dovetail.executor.state.server_folder import FolderRefused

    try:
        folder = open_folder(session, str(checkpoint))
    except FolderRefused as no:
        if plan is None:
            return None
        raise QueryError(
            f"This join of streams runs over bins, whose SQL Dovetail has to store in the checkpoint, and cannot: {no}"
        ) from no
    settings = described_settings(session.conf.get(name) or "" for name in MEANING)
    now = Pinned(text, settings, plan.sql() if plan else "", given)
    if old := read_pinned(folder):
        check_pinned(old, now, folder)
        return old.sql
    if plan is None:
        return None
    if folder.inside("state"):
        _LOG.info("%s was started without bins, and resumes without them", folder)
        return None
    write_pinned(folder, now)
    return now.sql
