"""Joins of streams by a band as Spark's own join, with the bin as the equality that it needs.

Any query may stand above such a join: an aggregate, DISTINCT, another join.  Without an equality Spark runs none of
them; with one, bins add copies of rows to its state, so that they are made only where the user asks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from optimizer.lookups import speaks_of_time
from optimizer.plan import Plan
from optimizer.planning import plan_over_bins
from planner.catalog import Catalog
from planner.logical import BandJoin, Cte, Logical, Scan
from planner.physical.bin_join import BinJoin
from planner.state.pinned import Pinned, hold_against_pinned, read_pinned, write_pinned
from planner.state.spec import MEANING
from planner.state.stream import Stream
from rules.band_join.keys import across
from rules.context import Context

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_LOG = logging.getLogger("dovetail")


def over_bins(
    text: str, catalog: Catalog, options: Any, find: Callable[[tuple[str, ...]], Stream | None], *, asked: bool | None
) -> Plan | None:
    """The plan of a query with bins in its joins of streams; None where there is none, or Spark needs none.

    ``find`` tells which tables are streams.  ``asked``: whether Spark could run the query without does not matter.
    """
    plan = plan_over_bins(text, catalog, options)
    if plan.physical is None or plan.optimized is None or not plan.rewritten or speaks_of_time(plan):
        return None
    if not any(isinstance(node, BinJoin) for node in plan.physical.walk()):
        return None
    definitions = {node.key: node for node in plan.optimized.walk() if isinstance(node, Cte)}

    def streams(relation: Logical) -> bool:
        """Whether a relation reads a stream."""
        for scan in (node for node in relation.walk() if isinstance(node, Scan)):
            if streams(definitions[scan.cte].query) if scan.cte else find(scan.name) is not None:
                return True
        return False

    ctx = Context(catalog, options, options.force, definitions)
    joins = [j for j in plan.optimized.walk() if isinstance(j, BandJoin) and streams(j.left) and streams(j.right)]
    return plan if any(asked or not across(join, ctx) for join in joins) else None


def statement(session: SparkSession, plan: Plan | None, text: str, checkpoint: str | Path) -> str | None:
    """The statement over bins that a checkpoint was begun with, or begins with now; None for the text as written.

    Raises ``StateError`` where it was begun with another query.
    """
    from planner.runtime.batch import classic
    from planner.runtime.state.files import HadoopFolder

    if not classic(session):
        return None
    folder = HadoopFolder(session, str(checkpoint))
    settings = tuple((name, session.conf.get(name) or "") for name in MEANING)
    now = Pinned(text, settings, plan.sql() if plan else "")
    if old := read_pinned(folder):
        hold_against_pinned(old, now, folder)
        return old.sql
    if plan is None:
        return None
    if folder.inside("state"):
        _LOG.info("%s was begun without bins, and goes on so", folder)
        return None
    write_pinned(folder, now)
    return now.sql
