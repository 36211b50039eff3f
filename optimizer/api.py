"""Optimizer: the public API."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dovetail.executor.session.installation import install, uninstall
from dovetail.optimizer.estimate.answer import Answer
from dovetail.optimizer.estimate.run import Goal, prepare_estimate
from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.driver import Stage
from dovetail.optimizer.planning.parameters import check_text
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.session.declarations import Declarations
from dovetail.optimizer.session.options import options_of_session, warn_of_unread_settings
from dovetail.optimizer.session.planner import SessionPlanner
from dovetail.optimizer.statements.events import Listener
from dovetail.optimizer.streams.plan import StreamPlan
from dovetail.optimizer.streams.queries import StreamQuery, plan_on_session
from dovetail.optimizer.streams.start import StreamStart
from dovetail.optimizer.verification import Verification
from dovetail.optimizer.verify.batch import Checks, verify
from dovetail.optimizer.verify.streams import check_can_copy, verify_over_copies, verify_streams
from dovetail.optimizer.views.materialization import ViewDefinition, materialize
from dovetail.optimizer.views.materialized_view import MaterializedView
from dovetail.optimizer.views.materialized_views import MaterializedViews, materialize_all
from dovetail.planner.errors import QueryError, a
from dovetail.planner.sql.reader import check_query
from dovetail.planner.state.sink import Destination, Mode, Target, check, trigger_of

if TYPE_CHECKING:
    from datetime import timedelta
    from decimal import Decimal
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from typing_extensions import Self

    from dovetail.executor.connectors.source import LookupSource
    from dovetail.executor.dataframes.asof import Direction

_LOG = logging.getLogger("dovetail.plan")
_NEEDS_CLASSIC = (
    "{} needs a classic session, not Spark Connect: the driver's JVM writes the state of a view. Run it where the "
    "driver runs, on a session of SparkSession.builder.master(…)"
)


class Optimizer:
    """Plans SQL for a Spark session, classic or Connect, and lets Spark run it.

    >>> opt = Optimizer(spark)                                      # doctest: +SKIP
    >>> opt.sql("SELECT * FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi").show()   # doctest: +SKIP
    """

    def __init__(self, session: SparkSession, options: Options | None = None):
        """Create an optimizer.

        ``options``: if None, read from the settings ``spark.dovetail.…`` of the session; else a setting that differs is
        a WARNING.  Raises ``OptionError``.
        """
        self.declarations = Declarations(session)
        if options is None:
            options = options_of_session(session)
        else:
            warn_of_unread_settings(session, options)
        self._planner = SessionPlanner(session, options, self.declarations)

    @classmethod
    def install(cls, session: SparkSession, options: Options | None = None, *, frames: bool = False) -> Self:
        """Let ``session.sql`` plan every statement, in all threads, for code that cannot be changed.

        ``frames``: actions of DataFrames, such as ``count`` and ``write``, run ``dataframe(frame)``, too.  Returns the
        optimizer; its ``uninstall`` undoes this.  ``with Optimizer(spark):`` installs it for SQL and undoes it.  Where
        several are installed, the last one plans.  Raises ``OptionError`` as ``Optimizer`` does.
        """
        from dovetail.executor.dataframes.installed_frames import install_frames

        optimizer = cls(session, options)
        if frames:
            install_frames(session, optimizer)
        return optimizer.__enter__()

    def uninstall(self) -> None:
        """Undo ``install``: ``session.sql`` and DataFrames are what they were.  Nothing happens if not installed."""
        from dovetail.executor.dataframes.installed_frames import uninstall_frames

        uninstall(self.session, self)
        uninstall_frames(self.session, self)

    def __enter__(self) -> Self:
        install(self.session, self)
        return self

    def __exit__(self, *error: object) -> None:
        uninstall(self.session, self)

    @property
    def session(self) -> SparkSession:
        """The session on which statements are planned and run."""
        return self._planner.session

    @property
    def options(self) -> Options:
        """The options of this optimizer; another optimizer takes others."""
        return self._planner.options

    def sql(self, text: str, /, args: dict[str, Any] | list[Any] | None = None, **frames: Any) -> DataFrame:
        """Run a statement: drop-in for ``spark.sql``.

        ``args``: named or positional parameters.  ``frames``: DataFrames and values for ``{name}`` in the text, as in
        ``spark.sql``.  Logs ``Plan.warnings`` to the logger ``dovetail.plan``.

        Raises what Spark raises, and besides: ``QueryError`` for a lookup (FOR SYSTEM_TIME AS OF) that cannot be
        rewritten, since Spark has none; ``TypeError`` for anything but a string; with ``Options(strict=True)``, the
        error that made planning fail.
        """
        check_text(text, "opt.sql")
        plan = self._planner.plan_to_run(text, args, frames)
        _log_warnings(plan)
        return plan.run()

    def estimate(
        self,
        text: str,
        /,
        args: dict[str, Any] | list[Any] | None = None,
        *,
        error: float = 0.01,
        confidence: float = 0.95,
        seconds: float | None = None,
        seed: int | None = None,
        **frames: Any,
    ) -> Iterator[Answer]:
        """Estimate counts, sums and averages from a sample that grows; each answer has narrower intervals.

        The answers end when the half width of each certified interval is at most ``error`` times its estimate, with the
        exact answer of ``opt.sql``, or after so many ``seconds``; leave the iteration whenever an answer suffices
        (docs/estimates.md).  ``confidence``: the probability with which an interval holds the exact value.  ``seed``
        repeats a sample; None draws one.  ``args`` and ``frames`` as in ``sql``.

        Raises ``QueryError`` for a statement that cannot be estimated, with the reason, and if nothing was read in the
        time; ``OptionError``; and what Spark raises.
        """
        check_text(text, "opt.estimate")
        goal = Goal(error, confidence, seconds, seed)
        return prepare_estimate(self._planner, text, args, frames, goal).answers()

    def dataframe(self, frame: DataFrame, /) -> DataFrame:
        """Plan a DataFrame, and return the one that runs the rewriting: the same rows, columns and types.

        Joins of the DataFrame, and the filters, columns, aggregates, ORDER BY and LIMIT above them, are written as a
        statement over its relations.  A rewriting counts only if Spark optimizes that statement to the plan of the
        DataFrame.  Where no rule applies, ``frame`` itself is returned; ``plan(frame)`` shows why.  Columns of the
        result go by their names and aliases: ``result["id"]`` or ``"e.id"``, not ``left["id"]``.

        Raises ``TypeError`` for anything but a DataFrame; with ``Options(strict=True)``, the error that made planning
        fail.
        """
        plan = self._planner.plan_frame(frame)
        _log_warnings(plan)
        return plan.run()

    def join(
        self, left: DataFrame, right: DataFrame, on: str | Column | list[str] | list[Column], how: str = "inner"
    ) -> DataFrame:
        """Join two DataFrames, with the columns that ``left.join(right, on, how)`` returns.

        ``on``: a condition in SQL over the columns and aliases of both, as ``"e.ts BETWEEN w.start AND w.stop"``; a
        Column; or what else ``DataFrame.join`` takes but a string.  Raises what Spark raises.
        """
        from dovetail.executor.dataframes.condition import condition

        return self.dataframe(left.join(right, condition(left, on) if isinstance(on, str) else on, how))

    def join_asof(
        self,
        left: DataFrame,
        right: DataFrame,
        *,
        on: str | None = None,
        left_on: str | None = None,
        right_on: str | None = None,
        by: str | Sequence[str] = (),
        left_by: str | Sequence[str] = (),
        right_by: str | Sequence[str] = (),
        direction: Direction = "backward",
        tolerance: timedelta | float | Decimal | None = None,
        allow_exact_matches: bool = True,
        how: Literal["left", "inner"] = "left",
        suffix: str = "_right",
    ) -> DataFrame:
        """Join each left row with the nearest right row: ``merge_asof`` of pandas, ``join_asof`` of Polars.

        ``on``, or ``left_on`` and ``right_on``: the columns that are compared, numbers, dates, timestamps or strings of
        one type; nothing needs to be sorted.  ``by``, or ``left_by`` and ``right_by``: columns that are equal.
        ``direction``: the last right row that is not after the left one ("backward"), the first that is not before it
        ("forward"), or the nearer of these ("nearest", backward where both are equally near).  ``tolerance``: how far
        it may be, a number, or a ``timedelta`` for dates and timestamps.  ``allow_exact_matches``: whether equal values
        count.  ``how``: "left" keeps left rows without a match.  A row whose compared column or ``by`` is NULL has no
        match.  Of right rows that tie, any may be joined.

        Returns the left columns, and the right ones except those that ``on`` and ``by`` name alike on both sides; a
        right column whose name the left side has gets the ``suffix``.  Raises ``QueryError`` for arguments that do not
        fit the columns, with the reason.
        """
        from dovetail.executor.dataframes.asof import AsofJoin, asof_statement, compared_columns, equal_columns
        from dovetail.executor.session.settings import all_settings, name_case

        join = AsofJoin(
            *compared_columns(on, left_on, right_on),
            equal_columns(by, left_by, right_by),
            direction,
            tolerance,
            allow_exact_matches,
            how,
            suffix,
        )
        settings = all_settings(left.sparkSession)
        text = asof_statement(left.schema, right.schema, join, name_case(settings))
        plan = self._planner.plan_to_run(text, None, {"left": left, "right": right}, required=True)
        if not plan.rewritten and settings.get("spark.sql.join.asofJoin.enabled") != "true":
            reasons = "; ".join(dict.fromkeys(d.reason for d in plan.declined))
            raise QueryError(f"join_asof cannot join {join.left_on} with {join.right_on}: {reasons}")
        _log_warnings(plan)
        return plan.run()

    def plan(
        self,
        text: str | DataFrame,
        /,
        args: dict[str, Any] | list[Any] | None = None,
        *,
        stop_after: Stage = "lower",
        **frames: Any,
    ) -> Plan:
        """Plan a statement, or a DataFrame as in ``dataframe``, without running it.

        ``args`` and ``frames`` as in ``sql``.  A plan shows a DataFrame as a table whose name begins with that in the
        braces.

        Spark resolves the tables and analyzes the rewriting.  Planning may run small queries over the data
        (``Options.measure_lengths``).  Their results and the plan are cached until the files that they depend on
        change.  ``Plan.dataframe`` plans again if anything that the plan depends on has changed by then.

        ``Plan.rejection`` is Spark's error for a query that Spark cannot analyze.

        Raises ``QueryError`` for a statement that neither Spark nor Dovetail can run, and ``TypeError`` for anything
        but a string or a DataFrame.  If planning fails for any other reason, the plan runs the original text, with the
        reason in ``declined``; ``Options(strict=True)`` raises the error instead.
        """
        if isinstance(text, str):
            return self._planner.plan(text, args, stop_after, frames)
        if not hasattr(text, "sparkSession"):
            raise TypeError(f"opt.plan takes SQL as a string, or a DataFrame, not {a(type(text).__name__)}")
        return self._planner.plan_frame(text, stop_after)

    def stream(
        self,
        text: str,
        args: dict[str, Any] | list[Any] | None = None,
        *,
        checkpoint: str | Path,
        sink: Target,
        trigger: str | None = None,
        mode: Mode = "append",
        name: str | None = None,
        state_modules: bool | None = None,
        state_ttl: float | None = None,
        bins: bool | None = None,
    ) -> StreamingQuery:
        """Start a query over streams that writes its rows to ``sink``: a table, a ``Sink``, or a function.

        ``checkpoint``: the folder where Spark stores the progress; the query resumes from it.  ``trigger``:
        ``available now``, or the time between micro-batches, such as ``10 seconds``; None starts each one when the last
        has ended.  ``mode`` and ``name`` are Spark's.  ``lastProgress.observedMetrics`` has the counters of the lookups
        of a micro-batch.

        State modules next to the checkpoint store the rows of a band join of two streams, a self-join, a join of three
        or more streams, and a join with versions, if they support the query (docs/streams.md; ``stream_plan`` shows
        which plan runs).  Spark's state store holds the rows of any other join.
        ``state_modules=True`` also uses them for equi-joins; ``False`` uses Spark's own join.
        ``state_ttl``: seconds after which a row may leave the state even if it could still match.
        ``bins=True`` uses the bins of each band in Spark's own join, not only if Spark could not run the join without
        them; ``False`` never does.  The statement over bins is stored next to the checkpoint, and runs again unchanged.

        Raises ``OptionError``; ``QueryError`` for a statement that is not a query or reads no stream; ``StateError``
        for a checkpoint whose state is damaged or belongs to another query; and what Spark raises.
        """
        check_text(text, "opt.stream")
        check(sink, mode)
        trigger_of(trigger)
        check_query(text, "; write the SELECT alone, and name the target of its rows with sink=")
        from dovetail.executor.state.sink_format import known_format

        query, to = StreamQuery(text, args, state_modules, bins), Destination(checkpoint, sink, trigger, mode, name)
        with known_format(sink):
            return StreamStart(self, query, to, state_ttl).start()

    def materialize(
        self,
        text: str,
        name: str,
        *,
        state: str | Path,
        args: dict[str, Any] | list[Any] | None = None,
        sink: Target | None = None,
        mode: Mode = "update",
    ) -> MaterializedView:
        """Maintain the result of a query over streams, as a temporary view with a name (docs/materialized-views.md).

        The folder ``state`` stores the rows of the streams that later rows may join with, and the result of the join:
        its rows or, if they suffice for the query, a row of accumulators for each group and epoch.  The first call
        processes all rows of the streams; each ``refresh`` and each later call processes only new rows.  The view
        evaluates the clauses above the join (GROUP BY, HAVING, DISTINCT, ORDER BY, LIMIT) on the stored result.

        If there is a ``sink``, each refresh also writes to it: with ``mode="update"`` the rows of
        ``MaterializedView.changes``, and with ``complete`` the whole result, which replaces the previous one.  A
        refresh that is repeated after a crash calls a function with the same number again, and replaces files.

        Raises ``QueryError`` for a query that cannot be maintained, and on Spark Connect; ``OptionError`` for a sink
        that does not support it; ``StateError`` for a folder of another query or sink; and what Spark raises.
        """
        from dovetail.executor.session.batch import classic

        if not classic(self.session):
            raise QueryError(_NEEDS_CLASSIC.format("opt.materialize"))
        check_text(text, "opt.materialize")
        if sink is not None:
            check(sink, mode)
        return materialize(self, ViewDefinition(name, text, args, state), sink, mode)

    def materialize_all(
        self,
        queries: Mapping[str, str],
        *,
        state: str | Path,
        args: dict[str, Any] | list[Any] | None = None,
        sinks: Mapping[str, Target] | None = None,
        mode: Mode = "update",
    ) -> MaterializedViews:
        """Maintain the results of several queries over the same streams on one state (docs/materialized-views.md).

        ``queries`` and ``sinks`` map the names of the views; ``args`` and ``mode`` hold for all views.  The folder
        ``state`` stores each stream once, with the columns and rows that any of the queries needs, and the result of
        the join of each view.  One streaming query refreshes all views, so that they always show the same moment.  A
        later call may drop views, and add views that need nothing else of the streams: an added view starts with the
        rows in the state.

        Raises what ``materialize`` raises; ``QueryError`` also for a query that is no join of streams on state modules,
        or one with watermarks; ``StateError`` also for a folder whose streams were stored for other queries.
        """
        from dovetail.executor.session.batch import classic

        if not classic(self.session):
            raise QueryError(_NEEDS_CLASSIC.format("opt.materialize_all"))
        for name, text in queries.items():
            check_text(text, f"opt.materialize_all, for the view {name},")
        for sink in (sinks or {}).values():
            check(sink, mode)
        views = [ViewDefinition(name, text, args, state) for name, text in queries.items()]
        return materialize_all(self, views, sinks or {}, mode)

    def stream_plan(
        self,
        text: str,
        args: dict[str, Any] | list[Any] | None = None,
        *,
        state_modules: bool | None = None,
        bins: bool | None = None,
    ) -> StreamPlan:
        """Plan a query as ``stream`` would run it: on state modules or on Spark's own join, and why.  Runs nothing."""
        return plan_on_session(self, StreamQuery(text, args, state_modules, bins))

    def verify(
        self,
        text: str,
        args: dict[str, Any] | list[Any] | None = None,
        *,
        measure: bool = False,
        timeout: float | None = None,
        sample: float | None = None,
        limit: int | None = None,
        progress: Callable[[str], object] | None = None,
        state_modules: bool | None = None,
        scratch: str | Path | None = None,
    ) -> Verification:
        """Run the original query and its rewriting, and compare their rows as multisets inside Spark.

        ``measure``: run each way once more, and return the seconds and, on a classic session, the rows of each operator
        of Spark's plan.  ``timeout``: in seconds; Spark's jobs are canceled then.  ``sample`` and ``limit``: the part,
        or about the number, of rows to read of the largest table, of an outer join on its preserved side; both ways
        read the same.  ``progress`` is called with a text before each step.
        A query over streams runs once over all their rows, from their beginning and with a checkpoint of its own, and
        is compared with the batch query over the rows that were not late; ``state_modules`` is as in ``stream``.
        ``scratch``: an empty folder that Spark reads and writes, for a copy of these rows, which is removed afterwards;
        None takes a temporary folder of this machine.  Raises ``QueryError`` if there is nothing to compare with, or
        if rows of streams are to be measured, ``OptionError`` for a time limit or a sample that cannot be, and what
        Spark raises.
        """
        checks = Checks(timeout, sample, limit, measure, progress or Checks.progress)
        plan = plan_on_session(self, StreamQuery(text, args, state_modules))
        if plan.join or plan.bins:
            check_can_copy(self.session)
        if measure and plan.join:
            raise QueryError("measure=True is for queries over tables, and this one joins streams; leave it out")
        if plan.join and (found := verify_streams(self, plan, scratch)):
            return found
        if plan.versions:
            raise QueryError(plan.describe_refusal(plan.reason))
        batch = plan.bins or self.plan(text, args)
        if batch.rewritten and (found := verify_over_copies(self.session, batch, scratch)):
            return found
        return verify(self.session, batch, checks)

    def add_listener(self, listener: Listener) -> None:
        """Call ``listener`` with a ``StatementEvent`` for each statement that is planned, and each that fails.

        For counters and tables of your own (docs/operations.md).  It runs in the thread of the statement; an exception
        of it is a warning, and fails no statement.
        """
        self._planner.statements.listeners.append(listener)

    def register_lookup(self, table: str, source: LookupSource) -> None:
        """Register the source of a lookup, which SQL joins as ``table FOR SYSTEM_TIME AS OF PROCTIME()``.

        Registering a name again replaces its source.  Raises ``SourceError`` if the source does not provide its
        columns, and whatever the source itself raises.
        """
        self.declarations.register_lookup(table, source)

    def declare_versions(self, table: str, key: Iterable[str], valid_from: str) -> None:
        """Declare that each row of ``table`` is a version of the row with its ``key``, valid from a time on.

        A version is valid until the next one of its key begins; no two versions of a key begin at the same time.
        ``table FOR SYSTEM_TIME AS OF t`` then returns the versions valid at ``t``.  For a stream, ``valid_from`` is the
        column of its watermark, and ``stream`` joins rows of another stream once the watermark has reached their time.
        Raises ``CatalogError``.
        """
        self.declarations.declare_versions(table, key, valid_from)

    def declare_changelog(
        self, table: str, change_column: str, key: Iterable[str] = (), *, insert_only: bool = False
    ) -> None:
        """Declare that the rows of ``table`` are changes; ``change_column`` holds the kind of each change.

        The kinds are those of change data feeds: ``insert``, ``update_preimage``, ``update_postimage`` and ``delete``;
        each change has the whole row.  A join of streams joins the rows that remain after all changes, and returns
        changes.  If a left join looks these rows up, no two of them may have the same ``key``, unless it is NULL.  A
        lookup join keeps the changes of each ``key`` in order, and therefore in one task, unless they are
        ``insert_only``.  Raises ``CatalogError``.
        """
        self.declarations.declare_changelog(table, change_column, key, insert_only=insert_only)

    def declare_key(self, table: str, columns: Iterable[str], *, enforced: bool = True) -> None:
        """Declare that ``columns`` are unique in the table or view that the name denotes now.

        The key does not apply to another view or table that takes the name later; writes to the table do not affect it.
        Rows with a NULL in the key may repeat.  ``enforced``: every writer of the table enforces the key; otherwise the
        key is informational and counts only with ``Options(trust_informational_keys=True)``.  Raises ``CatalogError``
        for a table or column that does not exist.
        """
        self.declarations.declare_key(table, columns, enforced=enforced)


def optimized(frame: DataFrame, options: Options | None = None) -> DataFrame:
    """Plan a DataFrame as ``Optimizer.dataframe`` does, on its own session."""
    return Optimizer(frame.sparkSession, options).dataframe(frame)


def _log_warnings(plan: Plan) -> None:
    for warning in plan.warnings:
        _LOG.warning("%s", warning)
