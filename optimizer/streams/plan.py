"""The plan of a query over streams: a join on state modules, or Spark's own stream-stream join with the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.streams.epochs import Schemas
from dovetail.planner.errors import OptionError, one_of
from dovetail.planner.explain.explanation import Explanation
from dovetail.planner.explain.html.page import can_render, render_fragment, render_page
from dovetail.planner.explain.printer import show_tree, show_warnings
from dovetail.planner.explain.records import Declined, PlanWarning
from dovetail.planner.physical.half_join import epoch_of
from dovetail.planner.state.fingerprint import Given
from dovetail.planner.state.spec import StreamJoin

OVER_BINS = "Spark's own stream-stream join runs over bins"

StreamMode = Literal["plan", "html"]
STREAM_MODES: tuple[StreamMode, ...] = get_args(StreamMode)


@dataclass(frozen=True)
class StreamPlan:
    """The plan of a query over streams: a ``join`` on state modules, or the reasons why they do not run it.

    ``declined``: these reasons, the first of which decides.  A query that joins no streams has neither.  ``bins``:
    the plan with bins that Spark's own join runs over; None if the query runs as written.  ``warnings``: hints on
    the order of lookups that have no effect.  ``changelog`` names an input whose rows are changes, which Spark
    cannot join; empty if all rows are inserts.  ``versions`` names an input that is joined by version, which Spark
    cannot do either.  ``schemas``: the schemas of the join, as Spark analyzed them.  ``given``: the query with its
    arguments, if it has any; ``text`` has their values.
    """

    text: str
    join: StreamJoin | None = None
    declined: tuple[Declined, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()
    bins: Plan | None = None
    changelog: str = ""
    schemas: Schemas | None = None
    versions: str = ""
    given: Given | None = None

    @property
    def reason(self) -> str:
        """Why Spark's own join runs; empty if it does not."""
        return self.declined[0].reason if self.declined else ""

    @property
    def requires_state_modules(self) -> bool:
        """Whether Spark cannot run the query at all: it joins changes or versions."""
        return bool(self.changelog or self.versions)

    def explain(self, mode: StreamMode = "plan") -> str:
        """Describe the plan of an epoch, or why there is none, as ``plan`` or ``html``.

        Raises ``OptionError`` for another mode, and ``EnvironmentProblem`` for ``html`` without Jinja.
        """
        match mode:
            case "plan":
                return self._describe()
            case "html":
                return render_page(self.explanation())
        raise OptionError(f"explain has no mode {mode!r} for streams; {one_of(STREAM_MODES, str(mode))}")

    def explanation(self) -> Explanation:
        """The parts of an explanation, from which pages are made."""
        if self.bins and not self.join:
            binned = self.bins.explanation()
            declined = (*self.declined, *binned.declined)
            return replace(binned, declined=declined, notes=(f"{OVER_BINS}: {self.reason}.",))
        epoch = epoch_of(self.join) if self.join else None
        notes = () if self.join else (self._describe().partition("\n")[0],)
        return Explanation(
            self.text,
            self.text,
            rewritten=False,
            after=epoch,
            declined=self.declined,
            warnings=self.warnings,
            notes=notes,
        )

    def _repr_html_(self) -> str | None:
        """Show the plan in a notebook; as text if Jinja is not installed."""
        return render_fragment(self.explanation()) if can_render() else None

    def _describe(self) -> str:
        if self.join:
            description = show_tree(epoch_of(self.join))
        elif self.bins and self.bins.physical:
            description = f"{OVER_BINS}: {self.reason}\n{show_tree(self.bins.physical)}"
        elif self.reason and self.requires_state_modules:
            description = self.describe_refusal(self.reason)
        elif self.reason:
            description = f"Spark's own stream-stream join runs: {self.reason}"
        else:
            description = "no two streams are joined; no state is held"
        return f"{description}\n{show_warnings(self.warnings)}" if self.warnings else description

    def describe_refusal(self, reason: str) -> str:
        """Describe why a join with a changelog, or with versions, cannot run."""
        if self.versions:
            return f"{self.versions} is a stream of versions, and only state modules join these: {reason}"
        is_above = any(d.code == "clause_above_join" for d in self.declined[:1])
        above = "; opt.materialize does" if is_above else ""
        joins = "is a changelog, and only state modules join changes"
        return f"{self.changelog} {joins}, which do not take this: {reason}{above}"

    def with_arguments(self, given: Given) -> StreamPlan:
        """Add the arguments of a query to its plan, whose reason then shows none of their values."""
        join = self.join and replace(self.join, given=given)
        declined = tuple(d._replace(reason=given.masked(d.reason)) for d in self.declined)
        return replace(self, given=given, declined=declined, join=join)
