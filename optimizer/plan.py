"""A planned statement: what it was, what it became, why, and how to run it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from optimizer.idle_hints import idle_hints
from optimizer.trace import Trace
from planner.errors import OptionError, Place, QueryError, one_of
from planner.explain.printer import show_error, show_refusals, show_steps, show_tree, show_warnings, to_json
from planner.logical import Logical, Statement
from planner.physical.base import Physical
from planner.sql.lookup_views import holes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from planner.connectors.metrics import Counters
    from planner.connectors.source import LookupSource
    from planner.runtime.lookup.metrics import LookupMetrics

Mode = Literal["plan", "trace", "cost", "sql", "json"]
MODES: tuple[Mode, ...] = ("plan", "trace", "cost", "sql", "json")


class Declined(NamedTuple):
    """A rule, or a stage of the planning, that held back."""

    rule: str
    reason: str
    place: Place | None = None


class Warned(NamedTuple):
    """A rule, or a stage of the planning, that warns of something the user wrote."""

    rule: str
    reason: str
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.reason} ({self.place})" if self.place else self.reason


@dataclass(frozen=True)
class Plan:
    """What the optimizer made of a statement.

    ``rewritten``: whether Spark gets another text than the user's.  ``rules``: names of the rules that fired, in order.
    ``declined``: who held back, why, and where.  ``logical``, ``optimized``, ``physical``: the trees, None where the
    statement was not carried or planning was stopped.  ``timings``: seconds per stage; ``total`` includes ``catalog``.
    ``error``: why neither Spark nor Dovetail can run it.
    """

    text: str
    rewriting: str | None
    declined: tuple[Declined, ...]
    trace: Trace = field(default_factory=Trace)
    logical: Logical | None = None
    optimized: Logical | None = None
    physical: Physical | None = None
    choices: tuple[str, ...] = ()
    stopped: bool = False
    timings: dict[str, float] = field(default_factory=dict)
    arguments: Any = None
    given: Any = None
    frame: DataFrame | None = None
    session: Any = None
    error: QueryError | None = None
    sources: Mapping[str, LookupSource] = field(default_factory=dict)
    fetched: Mapping[str, LookupMetrics] = field(default_factory=dict)

    @property
    def rewritten(self) -> bool:
        """Whether Spark gets another text than the user's."""
        return self.rewriting is not None

    @cached_property
    def warnings(self) -> tuple[Warned, ...]:
        """What the user wrote that does not do what it asks for, such as a hint that names no relation."""
        said = [Warned(w.rule, w.reason, w.place) for w in self.trace.warnings]
        held: dict[Place | None, str] = {d.place: d.reason for d in reversed(self.declined) if d.place}
        runs = self.physical if self.rewritten else None
        for hint, why in () if self.stopped else idle_hints(self.text, self.logical, self.optimized, runs, held):
            if not any(w.reason.startswith(hint.text) for w in said):
                said.append(Warned("plan", f"{hint.text} does nothing: {why}", hint.place))
        return tuple(sorted(said, key=lambda w: w.place or Place(0, 0)))

    @property
    def prefix(self) -> str:
        """What stands before the query in INSERT … SELECT, CREATE TABLE AS and CREATE VIEW; else nothing."""
        return self.logical.prefix if isinstance(self.logical, Statement) else ""

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules that fired, in order."""
        return self.trace.rules

    def sql(self) -> str:
        """The statement as Spark gets it: the rewriting, or the user's text byte for byte."""
        return self.text if self.rewriting is None else self.rewriting

    def dataframe(self) -> DataFrame:
        """The statement as a DataFrame, drop-in for ``spark.sql``.  Raises what Spark raises."""
        from planner.runtime.batch import run

        if self.error is not None:
            raise self.error
        if self.frame is not None:
            return self.frame
        if self.session is None:
            raise OptionError("this plan was made without a session and cannot run; plan it with Optimizer(spark)")
        if self.rewritten and holes_of(self.physical):
            from planner.runtime.lookup.views import run_with_lookups

            assert self.physical is not None
            return run_with_lookups(self.session, self.physical, self.sources, self.arguments, self.fetched)
        return run(self.session, self.sql(), self.arguments)

    def metrics(self) -> dict[str, Counters | None]:
        """What the lookups of this plan have done so far, by table; None on Spark Connect, which cannot count."""
        return {table: counted.counters for table, counted in self.fetched.items()}

    def explain(self, mode: Mode = "plan") -> str:
        """The plan as text: ``plan``, ``trace``, ``cost``, ``sql`` or ``json``; raises ``OptionError`` for others."""
        match mode:
            case "plan":
                return "\n".join([self._tree(), *self._remarks()])
            case "trace":
                return "\n".join([show_steps(self.trace.steps) or "no rule fired", *self._remarks()])
            case "cost":
                said = self.choices or ("no choice was made: Spark's own plan runs",)
                return "\n".join([self._tree(), *said])
            case "sql":
                return self.sql()
            case "json":
                return json.dumps(self._json(), indent=2, ensure_ascii=False)
        raise OptionError(f"explain has no mode {mode!r}; {one_of(MODES, str(mode))}")

    def _tree(self) -> str:
        plan = self.physical if self.rewritten else self.logical
        if self.stopped:
            plan = self.physical or self.optimized
        if plan is None:
            return "Spark runs the statement as written"
        return show_tree(plan)

    def _remarks(self) -> list[str]:
        return [
            said
            for said in (show_error(self.error), show_refusals(self.declined), show_warnings(self.warnings))
            if said
        ]

    def _json(self) -> dict[str, Any]:
        plan = self.physical if self.rewritten else self.logical
        return {
            "rewritten": self.rewritten,
            "rules": list(self.rules),
            "choices": list(self.choices),
            "declined": [_json_of(d) for d in self.declined],
            "warnings": [_json_of(w) for w in self.warnings],
            **({"error": str(self.error)} if self.error else {}),
            "plan": to_json(plan) if plan is not None else None,
            "sql": self.sql(),
        }

    def __repr__(self) -> str:
        return f"<Plan rewritten={self.rewritten} rules={list(self.rules)}>"


def _json_of(said: Declined | Warned) -> dict[str, Any]:
    line, column = (said.place.line, said.place.column) if said.place else (None, None)
    return {"rule": said.rule, "reason": said.reason, "line": line, "column": column}
