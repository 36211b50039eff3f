"""A cache of plans: a plan stays valid while the views, files and settings of its snapshot are unchanged."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from dovetail.optimizer.session.schema_validation import CACHED_ROWS
from dovetail.planner.sql.reader import not_a_query

if TYPE_CHECKING:
    from dovetail.executor.catalog.spark_catalog import SparkCatalog
    from dovetail.optimizer.planning.plan import Plan
    from dovetail.optimizer.session.snapshot import Snapshot

_MOST = 200  # plans, and texts that were planned once
_WORTH = 0.1  # seconds; taking a snapshot and comparing it costs tens of milliseconds, which a plan has to save


class PlanCache:
    """Plans of queries over files, with the snapshots that validate them; plans with lookups are never cached."""

    def __init__(self) -> None:
        self._plans: OrderedDict[Hashable, tuple[Plan, Snapshot]] = OrderedDict()
        self._planned: OrderedDict[Hashable, None] = OrderedDict()

    def note_planned(self, text: str, options: Hashable) -> bool:
        """Note that a text was planned, and return whether it was before: a text that runs once needs no snapshot."""
        if (text, options) in self._planned:
            return True
        self._planned[text, options] = None
        if len(self._planned) > _MOST:
            self._planned.popitem(last=False)
        return False

    def find(
        self, text: str, options: Hashable, catalog: SparkCatalog, declared: Hashable, *, runs_later: bool
    ) -> tuple[Plan, Snapshot] | None:
        """The cached plan of a text and its snapshot, if that is unchanged; else None.

        A plan that ``runs_later`` is compared again then; any other one has its DataFrame.
        """
        if (known := self._plans.get((text, options))) is None:
            return None
        plan, snapshot = known
        if not (runs_later and plan.rewritten and snapshot.seems_unchanged(catalog, declared)):
            frame = snapshot.unchanged(catalog, declared)
            if frame is None:
                return None
            plan = replace(plan, frame=frame)
        self._plans.move_to_end((text, options))
        return plan, snapshot

    def add(self, text: str, options: Hashable, plan: Plan, snapshot: Snapshot | None) -> None:
        """Cache a plan, unless its snapshot holds rows."""
        if snapshot is None or not snapshot.only_files or not snapshot.runs:
            return
        self._plans[text, options] = replace(plan, frame=None), snapshot
        if len(self._plans) > _MOST:
            self._plans.popitem(last=False)


def is_worth_caching(plan: Plan, seconds: float) -> bool:
    """Whether a plan is worth caching: the query was rewritten, or its planning took long.

    Not one that is right only while some rows are cached.
    """
    if any(declined.rule == CACHED_ROWS for declined in plan.declined):
        return False
    if plan.statement or plan.logical is None or not_a_query(plan.text):
        return False
    return plan.frame is not None if plan.rewritten else seconds >= _WORTH
