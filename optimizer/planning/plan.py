"""Plan: a statement, its rewriting, the reasons, and how to run it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, get_args

from dovetail.optimizer.planning.idle_hints import idle_hints
from dovetail.optimizer.planning.trace import Trace
from dovetail.planner.errors import OptionError, Place, QueryError, one_of
from dovetail.planner.explain.explanation import Explanation
from dovetail.planner.explain.html.page import can_render, render_fragment, render_page
from dovetail.planner.explain.printer import show_declined, show_error, show_note, show_steps, show_tree, show_warnings
from dovetail.planner.explain.records import Choice, CostNote, Declined, PlanWarning
from dovetail.planner.logical import Logical, Statement
from dovetail.planner.physical.base import Physical
from dovetail.planner.sql.lookup_views import lookups_of
from dovetail.planner.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from dovetail.executor.connectors.metrics import Counters
    from dovetail.executor.connectors.source import LookupSource
    from dovetail.executor.lookup.metrics import LookupMetrics
    from dovetail.executor.lookup.views import Lookups
    from dovetail.executor.session.named_frames import NamedFrames
    from dovetail.executor.session.watched_frames import Around
    from dovetail.optimizer.options import Options
    from dovetail.optimizer.verification import Verification
    from dovetail.planner.explain.measured import MeasuredRun

Mode = Literal["plan", "trace", "cost", "sql", "json", "html"]
MODES: tuple[Mode, ...] = get_args(Mode)
_VIEW = re.compile(r"_[0-9a-f]{12}\b")  # ends the name of a view of a DataFrame, which is new in each run


@dataclass(frozen=True)
class Plan:
    """The plan of a statement.

    ``rewritten``: whether Spark runs a rewriting instead of the user's text.  ``rules``: names of the rules that fired,
    in order.  ``declined``: rules that declined, with reason and place.  ``decisions``: the choices by cost.
    ``logical``, ``optimized``, ``physical``: the trees, None if the statement was not parsed or planning stopped
    earlier.  ``timings``: seconds per stage; ``total`` includes ``catalog``.  ``error``: why neither Spark nor Dovetail
    can run it.  ``frame``: its DataFrame, if the plan runs right away.  ``named``: the DataFrames that the text names
    in braces.  ``current``: plans for the current tables, views and settings; None if the text runs as written.
    ``original``: the DataFrame that was planned, or the schema of the statement, whose metadata the rewriting lacks.
    ``shadow``: the rewritten plan, of a statement that runs as written although it can be rewritten.  ``around``: the
    context in which the statement and the actions of its DataFrame run.  ``requests``: the calls to the catalog.
    ``rejection``: Spark's error for a query that it cannot analyze, where planning had Spark analyze it; else empty.
    ``options``: those of the planning.
    """

    text: str
    rewriting: str | None
    declined: tuple[Declined, ...]
    trace: Trace = field(default_factory=Trace)
    logical: Logical | None = None
    optimized: Logical | None = None
    physical: Physical | None = None
    decisions: tuple[Choice | CostNote, ...] = ()
    stopped: bool = False
    timings: dict[str, float] = field(default_factory=dict)
    arguments: Any = None
    given: Any = None
    frame: DataFrame | None = None
    named: NamedFrames | None = field(default=None, repr=False, compare=False)
    above: Callable[[DataFrame], DataFrame] | None = field(default=None, repr=False, compare=False)
    current: Callable[[Plan], Plan] | None = field(default=None, repr=False, compare=False)
    original: Any = field(default=None, repr=False, compare=False)
    shadow: Plan | None = field(default=None, repr=False, compare=False)
    around: Around | None = field(default=None, repr=False, compare=False)
    requests: int = 0
    session: Any = None
    error: QueryError | None = None
    rejection: str = ""
    sources: Mapping[str, LookupSource] = field(default_factory=dict)
    fetched: Mapping[str, LookupMetrics] = field(default_factory=dict)
    options: Options | None = None

    @property
    def rewritten(self) -> bool:
        """Whether Spark runs a rewriting instead of the user's text."""
        return self.rewriting is not None

    @property
    def required(self) -> bool:
        """Whether Spark cannot analyze the original statement, because it joins tables as of a row's time."""
        return self.physical is not None and any(node.required for node in self.physical.walk())

    @cached_property
    def warnings(self) -> tuple[PlanWarning, ...]:
        """Parts of the user's text that have no effect, such as a hint that matches no relation."""
        found = list(self.trace.warnings)
        reasons: dict[Place | None, str] = {d.place: d.reason for d in reversed(self.declined) if d.place}
        physical = self.physical if self.rewritten else None
        # the hints of a view take effect in the queries that read it
        is_view = self.statement is not None and self.statement.is_view
        postponed = self.stopped or self.shadow is not None or (is_view and not self.rewritten)
        for hint, why in () if postponed else idle_hints(self.text, self.logical, self.optimized, physical, reasons):
            if not any(w.reason.startswith(hint.text) for w in found):
                found.append(PlanWarning("plan", f"{hint.text} does nothing: {why}", hint.place))
        return tuple(sorted(found, key=lambda w: w.place or Place(0, 0)))

    @property
    def statement(self) -> Statement | None:
        """What stands around the query in INSERT … SELECT, CREATE TABLE AS and the like; None for a query alone."""
        return self.logical if isinstance(self.logical, Statement) else None

    @property
    def query(self) -> str:
        """The query as written, without INSERT or CREATE around it and the semicolon behind it."""
        text = self.text.rstrip().rstrip(";")
        return self.statement.query_in(text) if self.statement else text

    @property
    def rewritten_query(self) -> str:
        """The query that Spark runs, without INSERT or CREATE around it."""
        if self.rewriting is None:
            return self.query
        around = self.statement
        return (
            self.rewriting[len(around.prefix) : len(self.rewriting) - len(around.suffix)] if around else self.rewriting
        )

    @property
    def named_query(self) -> str:
        """``rewritten_query`` with a comment that names it, where Spark Connect and a Thrift server show the SQL."""
        return f"{self._comment}{self.rewritten_query}"

    @property
    def named_sql(self) -> str:
        """``sql()`` with this comment."""
        around = self.statement.prefix if self.statement and self.rewritten else ""
        return f"{around}{self._comment}{self.sql()[len(around) :]}"

    @property
    def _comment(self) -> str:
        return f"/* Dovetail {VERSION}: {', '.join(self.recognizing_rules)} */\n" if self.rewritten else ""

    @cached_property
    def hash(self) -> str:
        """The hash of the text, by which logs, modes and the names in Spark's UI know the statement."""
        text = _VIEW.sub("", self.named.written if self.named else self.text)
        return sha256(text.strip().encode(errors="replace")).hexdigest()[:8]

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules that fired, in order."""
        return self.trace.rules

    @property
    def recognizing_rules(self) -> tuple[str, ...]:
        """Names of the rules that found what is rewritten: the short form of ``rules``."""
        found = dict.fromkeys(step.rule.name for step in self.trace.steps if step.batch == "recognize")
        return tuple(found) or self.rules

    @property
    def choices(self) -> tuple[str, ...]:
        """The choices by cost as text, a line for each way and note."""
        return tuple(line for decision in self.decisions for line in decision.lines)

    def sql(self) -> str:
        """The statement that Spark runs: the rewriting, or the user's text unchanged."""
        return self.text if self.rewriting is None else self.rewriting

    def dataframe(self) -> DataFrame:
        """Create the DataFrame of the statement, as ``spark.sql`` would at this moment.  Raises what Spark raises.

        Each call uses the current views, tables, functions and settings.  If anything that the rewriting depends on has
        changed since planning, the statement is planned again first; ``sql`` and ``explain`` still describe this plan.
        The statement is also planned again if changes cannot be detected: on Spark Connect, and for tables that are not
        files.
        """
        if self.error is not None:
            raise self.error
        if self.session is None:
            raise OptionError("this plan was made without a session and cannot run; plan it with Optimizer(spark)")
        now = self if self.current is None else self.current(self)
        if now is not self and now.fetched and self.fetched:
            now = replace(now, fetched={**now.fetched, **self.fetched})  # ``metrics`` counts the fetches of all runs
        return now.run()

    def run(self) -> DataFrame:
        """Create the DataFrame of the plan as it is, without checking for changes since planning."""
        if self.around is None:
            return self._run_above()
        from dovetail.executor.session.watched_frames import watch

        with self.around():
            found = self._run_above()
        return watch(found, self.around)

    def _run_above(self) -> DataFrame:
        from dovetail.executor.dataframes.output_columns import with_columns_of, with_metadata_of
        from dovetail.executor.session.batch import without_names

        found = self.above(self._run()) if self.above else self._run()
        if self.original is None or not self.rewritten:
            return found
        if hasattr(self.original, "sparkSession"):
            return without_names(with_columns_of(found, self.original))
        return with_metadata_of(found, self.original)

    @property
    def lookups(self) -> Lookups:
        """The sources of its lookup tables, and what counts the requests."""
        from dovetail.executor.lookup.views import Lookups

        return Lookups(self.sources, self.fetched)

    def _run(self) -> DataFrame:
        from dovetail.executor.session.named_frames import run_over_frames

        if self.frame is not None:
            return self.frame
        frames = self.named.frames if self.named else {}
        if self.rewritten and lookups_of(self.physical):
            from dovetail.executor.lookup.views import run_with_lookups

            assert self.physical is not None
            return run_with_lookups(self.session, self.physical, self.lookups, self.arguments, frames)
        if self.named and not self.rewritten:
            return self.named.run_as_written(self.session, self.arguments)
        return run_over_frames(self.session, self.named_sql, self.arguments, frames)

    def measure(self) -> MeasuredRun:
        """Run the plan once and keep no row: its seconds and, on a classic session, rows and seconds by operator.

        ``print(plan.measure())`` shows Spark's operators as a tree.  Raises what ``dataframe`` and Spark raise.
        """
        from dovetail.executor.catalog.measured_run import measure

        return measure(self.dataframe())

    def metrics(self) -> dict[str, Counters | None]:
        """Counters of the lookups of this plan so far, by table; None on Spark Connect, which cannot count."""
        return {table: metrics.counters for table, metrics in self.fetched.items()}

    def explain(self, mode: Mode = "plan", *, verified: Verification | None = None) -> str:
        """Format the plan as ``plan``, ``trace``, ``cost``, ``sql``, ``json`` or ``html``.

        ``html`` is a page that needs no network; it shows the result of ``verified``, and the rows of Spark's operators
        if that run was measured.  Raises ``OptionError`` for another mode, and ``EnvironmentProblem``
        for ``html`` without Jinja.
        """
        match mode:
            case "plan":
                return "\n".join([*self._format_rejection(), self._format_tree(), *self._format_messages()])
            case "trace":
                steps = show_steps(self.trace.steps) or "no rule fired"
                return "\n".join([*self._format_rejection(), steps, *self._format_messages()])
            case "cost":
                choices = self.choices or ("no choice was made: Spark's own plan runs",)
                return "\n".join([*self._format_rejection(), self._format_tree(), *choices])
            case "sql":
                return self.sql()
            case "json":
                return json.dumps(self.explanation().to_json(), indent=2, ensure_ascii=False)
            case "html":
                return render_page(self.explanation(verified))
        raise OptionError(f"explain has no mode {mode!r}; {one_of(MODES, str(mode))}")

    def _format_tree(self) -> str:
        plan = self.physical if self.rewritten else self.logical
        if self.stopped:
            plan = self.physical or self.optimized
        if plan is None:
            return "Spark runs the statement as written"
        return show_tree(plan)

    def _format_messages(self) -> list[str]:
        messages = (show_error(self.error), show_declined(self.declined), show_warnings(self.warnings))
        shown = [message for message in messages if message]
        if self.rewritten or self.stopped or self.error or self.rejection or self.declined:
            return shown
        return [show_note("Not rewritten: no rule matched"), *shown]

    def _format_rejection(self) -> list[str]:
        return [show_error(self._rejected)] if self._rejected else []

    @property
    def _rejected(self) -> QueryError | None:
        return QueryError(f"Spark cannot run this statement: {self.rejection}") if self.rejection else None

    @property
    def _is_from_cache(self) -> bool:
        """Whether an earlier planning made the plan: its timings are those of finding and checking it."""
        return self.logical is not None and bool(self.timings) and "parse" not in self.timings

    def explanation(self, verified: Verification | None = None) -> Explanation:
        """The parts of an explanation, from which JSON and pages are made."""
        return Explanation(
            self.text,
            self.sql(),
            rewritten=self.rewritten,
            before=self.logical,
            after=self.physical if self.rewritten else self.logical,
            steps=tuple(self.trace.steps),
            decisions=self.decisions,
            declined=self.declined,
            warnings=self.warnings,
            error=self.error or self._rejected,
            timings=self.timings,
            rule_seconds={} if self._is_from_cache else self.trace.seconds,
            from_cache=self._is_from_cache,
            notes=(f"Verified: {verified}",) if verified else (),
            runs=verified.runs if verified else None,
        )

    def report(self, *, anonymize: bool = False, verified: Verification | None = None) -> str:
        """A report for an issue, as Markdown: versions, settings, columns, both statements, rules, plans and times.

        It has no rows, and secrets are masked.  ``anonymize`` replaces names and texts of the statement by hashes.
        ``verified``: what ``opt.verify`` found.
        """
        from dovetail.optimizer.report import build_report

        return build_report(self, anonymize=anonymize, verified=verified)

    def _repr_html_(self) -> str | None:
        """Show the plan in a notebook; as text if Jinja is not installed."""
        return render_fragment(self.explanation()) if can_render() else None

    def __repr__(self) -> str:
        return f"<Plan rewritten={self.rewritten} rules={list(self.rules)}>"
