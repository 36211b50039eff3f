"""What happens with each planned statement: whether its rewriting runs, under which name, and who hears of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.statements.events import Listener, Outcome, StatementEvent, find_call_site
from dovetail.optimizer.statements.log import StatementLog
from dovetail.planner.errors import summarize
from dovetail.planner.explain.records import Declined

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("dovetail.plan")
_FAILED: WeakKeyDictionary[SparkSession, dict[str, dict[tuple[int, ...], str]]] = WeakKeyDictionary()
"""The circuit breaker: by session, the hashes of statements whose rewriting failed, and the errors by their inputs."""


class Statements:
    """Decides about the statements of an optimizer, and reports them."""

    def __init__(self, session: SparkSession, options: Options) -> None:
        self.session = session
        self.options = options
        self.listeners: list[Listener] = [StatementLog(options)] if options.statement_log else []
        self._failed = _FAILED.setdefault(session, {})

    def decide(self, plan: Plan, *, required: bool = False) -> Plan:
        """The plan that runs, with its name; logged, and reported to the listeners.

        ``required``: Spark cannot run the statement as written.
        """
        try:
            return self._decide(plan, find_call_site(), required=required, reports=True)
        except Exception as error:
            if self.options.strict:
                raise
            if required or self.options.mode == "all" or not plan.rewritten:
                return plan
            return _as_written(plan, Declined("planning", f"mode={self.options.mode} failed: {summarize(error)}"))

    def _decide(self, plan: Plan, call_site: str, *, required: bool, reports: bool) -> Plan:
        outcome: Outcome = "rewritten" if plan.rewritten else "as written"
        decided = plan
        if plan.rewritten and not required and not plan.required:
            if error := self._failure(plan):
                reason = f"the rewriting of this statement has failed in this session ({error}), so it runs as written"
                decided, outcome = _as_written(plan, Declined("circuit breaker", reason)), "as written"
            elif reason := self._mode_reason(plan.hash):
                decided, outcome = _as_written(plan, Declined("mode", reason)), "shadow"
        event = StatementEvent(decided, outcome, call_site)
        if reports:
            self._report(event)
        if outcome == "as written" and decided is plan:
            return plan
        current = decided.current

        def plan_current(plan: Plan) -> Plan:
            assert current is not None
            return self._decide(current(plan), call_site, required=required, reports=False)

        return replace(decided, around=partial(self._run, event), current=plan_current if current else None)

    def _failure(self, plan: Plan) -> str:
        """The error of a rewriting that failed in this session, over the same DataFrames; empty if there is none."""
        known = self._failed.get(plan.hash)
        return known.get(_inputs(plan), "") if known else ""

    def _mode_reason(self, hash_: str) -> str:
        """Why a rewriting does not run in this mode; empty if it does."""
        mode, share = self.options.mode, self.options.share
        if mode == "shadow":
            return "mode=shadow runs each statement as written, and reports the rewriting"
        if mode == "canary" and int(hash_, 16) >= share * 16 ** len(hash_):
            return f"mode=canary runs a share of the statements rewritten ({share}), and this is none of them"
        return ""

    def _report(self, event: StatementEvent) -> None:
        """Log a statement and call the listeners; a fault of theirs does not fail the statement."""
        with suppress(Exception):
            if event.outcome == "failed":
                _LOG.warning("%s. The statement runs as written for the rest of this session", event)
            elif _LOG.isEnabledFor(logging.INFO):
                _LOG.info("%s", event)
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 - code of the user, or a disk that is full
                with suppress(Exception):
                    _LOG.warning("A listener of statements failed: %s", summarize(error))

    @contextmanager
    def _run(self, event: StatementEvent) -> Iterator[None]:
        """Name what a statement runs inside the block, and open the circuit breaker if its rewriting fails."""
        from dovetail.executor.session.failures import failure_of_run
        from dovetail.executor.session.job_names import statement_name

        with ExitStack() as stack:
            with suppress(Exception):
                stack.enter_context(statement_name(self.session, _name(event)))
            try:
                yield
            except Exception as error:
                if event.outcome == "rewritten" and (kind := failure_of_run(error)):
                    with suppress(Exception):  # of a session that has ended
                        self._fail(event, kind)
                raise

    def _fail(self, event: StatementEvent, kind: str) -> None:
        if not self._failure(event.plan):
            self._failed.setdefault(event.hash, {})[_inputs(event.plan)] = kind
            self._report(replace(event, outcome="failed", error=kind))


def _inputs(plan: Plan) -> tuple[int, ...]:
    """Spark's hashes of the DataFrames that a statement names; the names alone are the same in many programs."""
    return tuple(frame.semanticHash() for frame in plan.named.frames.values()) if plan.named else ()


def _name(event: StatementEvent) -> str:
    """The name of a statement in Spark's UI: its rules, or that it runs as written, and its hash."""
    rules = event.plan.recognizing_rules if event.outcome == "rewritten" else ("as written",)
    return f"{', '.join(rules)}, {event.hash}"


def _as_written(plan: Plan, reason: Declined) -> Plan:
    """The plan that runs a rewritten statement as it was written."""
    return replace(
        plan,
        rewriting=None,
        frame=None,
        original=None,
        above=None,
        current=None,
        arguments=plan.given,
        declined=(reason, *plan.declined),
        shadow=plan,
    )
