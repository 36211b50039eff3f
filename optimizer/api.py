"""Optimizer: the one object a user holds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from optimizer import streams
from optimizer.checked import checked, difference_without_rows
from optimizer.driver import Stage
from optimizer.keeping import keep
from optimizer.kept import KeptView
from optimizer.kept_together import KeptViews, keep_together
from optimizer.lookups import asked_without_time, may_look_up, speaks_of_time, strictly
from optimizer.options import Options
from optimizer.parameters import named
from optimizer.plan import Declined, Plan
from optimizer.plan_cache import PlanCache
from optimizer.planning import plan_sql
from optimizer.streams import StreamPlan
from optimizer.verify import Verification, verify
from optimizer.verify_streams import verify_over_copies, verify_streams
from planner.catalog import Numbers, UniqueKey
from planner.catalog.declared import NOTHING, Changelog, Declaration, LookupTable, Versions
from planner.errors import CatalogError, QueryError, Unsupported, brief, is_users, one_of
from planner.expr import quote
from planner.sql.lookup_views import lookups_of
from planner.sql.reader import not_a_query
from planner.sql.table_names import name_of
from planner.state.sink import Mode, Target, check, trigger_of
from planner.types.schema import Column, sql_type

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from planner.connectors.source import LookupSource
    from planner.runtime.meaning import Meaning
    from planner.runtime.measurement_cache import MeasurementCache

_LOG = logging.getLogger("dovetail")


class Optimizer:
    """Plans SQL for a Spark session, classic or Connect, and lets Spark run it.

    >>> opt = Optimizer(spark)                                      # doctest: +SKIP
    >>> opt.sql("SELECT * FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi").show()   # doctest: +SKIP
    """

    def __init__(self, session: SparkSession, options: Options | None = None):
        self.session = session
        self.options = options or Options()
        self.keys: dict[tuple[str, ...], tuple[UniqueKey, ...]] = {}
        self.meanings: dict[tuple[tuple[str, ...], UniqueKey | str], Meaning | None] = {}
        self.declared: dict[tuple[str, ...], Declaration] = {}
        self.sources: dict[str, LookupSource] = {}
        self._measured: MeasurementCache[tuple[Numbers, ...]] | None = None
        self._plans = PlanCache()

    def sql(self, text: str, args: dict[str, Any] | list[Any] | None = None, **frames: Any) -> DataFrame:
        """Run a statement: drop-in for ``spark.sql``.

        ``args`` are named or positional parameters, ``frames`` DataFrames and values for ``{name}`` in the text, as in
        ``spark.sql``; a statement with ``frames`` goes to Spark as written.  Raises exactly what Spark raises.  What
        ``Plan.warnings`` holds goes to the logger ``dovetail``.
        """
        if frames:
            _say(self._safely(text, args, lambda: Plan(text, None, ())))
            return self.session.sql(text, args=args, **frames) if args else self.session.sql(text, **frames)
        plan = self.plan(text, args)
        _say(plan)
        return plan.dataframe()

    def plan(self, text: str, args: dict[str, Any] | list[Any] | None = None, *, stop_after: Stage = "lower") -> Plan:
        """Plan a statement and look before it runs.

        Asks Spark for the tables it needs and for the analysed schema of a rewriting.  May run small queries over
        the data (``Options.measure_lengths``); never runs the statement.  Answers and plans are remembered while the
        files that they are of stay the same.

        Raises ``QueryError`` for a statement that neither Spark nor Dovetail can run.  Whatever else goes wrong in
        here, the plan runs the text as written, with the reason in ``declined``; ``Options(strict=True)`` raises it.
        """
        return self._safely(text, args, lambda: self._plan(text, args, stop_after))

    def _safely(self, text: str, args: Any, planning: Callable[[], Plan]) -> Plan:
        """The one place where a fault of ours ends: the plan, or one that runs the text as written and says why."""
        from planner.runtime.hushed import hushed

        start = perf_counter()
        try:
            with hushed():
                plan = planning()
            _ = plan.warnings  # worked out here, where a fault does no harm
            return plan
        except Exception as error:
            if self.options.strict or is_users(error):
                raise
            if may_look_up(text, self.declared):
                raise QueryError(f"the statement asks for a lookup, and its planning failed: {brief(error)}") from error
            declined = (Declined("planning", f"it failed, the statement runs as written: {brief(error)}"),)
            timings = {"total": perf_counter() - start}
            own = {"arguments": args, "given": args, "session": self.session}
            return Plan(text, None, declined, stopped=True, timings=timings, **own)

    def _plan(self, text: str, args: Any, stop_after: Stage) -> Plan:
        from planner.runtime.catalog import SparkCatalog
        from planner.runtime.measurement_cache import MeasurementCache

        start = perf_counter()
        if self._measured is None:
            self._measured = MeasurementCache()
        numbered, arguments = named(text, args)
        catalog = SparkCatalog(self.session, arguments, self.keys, self.declared, self._measured, self.meanings)
        kept = stop_after == "lower" and not self.declared
        words = (self.options, tuple(self.keys.items()))
        if kept and (known := self._plans.find(numbered, arguments, words, catalog)):
            timings = {"catalog": catalog.seconds, "total": perf_counter() - start}
            return replace(known, text=text, arguments=arguments, given=args, timings=timings)
        differs = partial(difference_without_rows, catalog=catalog)
        plan = plan_sql(numbered, catalog, self.options, stop_after=stop_after, differs=differs)
        if plan.error:
            raise plan.error
        if plan.rewritten and speaks_of_time(plan):
            from planner.runtime.lookup.metrics import LookupMetrics

            counted = {j.spec.table: LookupMetrics(self.session) for j in lookups_of(plan.physical)}
            plan = replace(plan, sources=dict(self.sources), fetched=counted)
        elif self.sources and plan.logical and (error := asked_without_time(plan.logical, catalog)):
            raise error
        elif plan.rewritten:
            plan = strictly(checked(plan, catalog, arguments), self.options)
            if plan.error:
                raise plan.error
        if kept and (plan.rewritten or numbered == text):  # Spark gets the others byte for byte
            frame = self._plans.keep(numbered, words, plan, perf_counter() - start, catalog)
            plan = plan if plan.rewritten else replace(plan, frame=frame)
        if not plan.rewritten:
            arguments = args
        timings = {**plan.timings, "catalog": catalog.seconds, "total": perf_counter() - start}
        return replace(plan, text=text, arguments=arguments, given=args, session=self.session, timings=timings)

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
        """Start a query over streams, and write its rows to ``sink``: a table, a ``Sink``, or a function.

        ``checkpoint``: the folder where Spark keeps how far it has come, from which the query goes on.  ``trigger``:
        ``available now``, or the time between micro-batches, as ``10 seconds``; None starts each at once.  ``mode`` and
        ``name`` are Spark's.  What the lookups of a micro-batch did is in ``lastProgress.observedMetrics``.

        A join of two streams by a band, of a stream with itself, of more than two, or with versions keeps its rows in
        state modules beside the checkpoint where these take it (docs/streams.md; ``stream_plan`` tells), any other in
        Spark's store.
        ``state_modules=True`` asks for them for joins by equality as well, ``False`` for Spark's own join.
        ``state_ttl``: seconds after which a row may leave the state even if it could still match.
        ``bins=True``: Spark's own join is by the bins of a band wherever there is one, and not only where Spark could
        not run it without; ``False``: nowhere.  Its statement is kept beside the checkpoint, and runs again as it is.

        Raises ``OptionError``; ``QueryError`` for a statement that is no query, or reads no stream; ``StateError`` for
        a checkpoint whose state is of another query, or damaged; and what Spark raises.
        """
        check(sink, mode)
        trigger_of(trigger)
        word = None
        with suppress(Unsupported):  # Spark has its own words for what cannot be read
            word = not_a_query(text)
        if word:
            raise QueryError(f"{word} … is not a query; write the SELECT alone, and say where its rows go with sink=")
        more: Any = {"checkpoint": checkpoint, "sink": sink, "trigger": trigger, "mode": mode, "name": name}
        begun = streams.start(self, text, args, **more, ttl=state_ttl, asked=state_modules, bins=bins)
        return begun or streams.start_planned(self, text, args, **more)

    def keep(
        self,
        text: str,
        name: str,
        *,
        state: str | Path,
        args: dict[str, Any] | list[Any] | None = None,
        sink: Target | None = None,
        mode: Mode = "update",
    ) -> KeptView:
        """Keep the result of a query over streams fresh, as a temporary view with a name (docs/kept-views.md).

        The folder ``state`` has the rows of the streams that later ones may join with, and of what the join has found
        either the rows or, where these tell all that the query asks, a row of accumulators for each group and epoch.
        The first call takes all that has arrived; each ``refresh`` and each later call takes what is new, and adds what
        it finds.  The view computes from that whatever stands above the join (GROUP BY, HAVING, DISTINCT, ORDER BY,
        LIMIT).

        Each refresh also writes to ``sink``, if there is one: with the ``mode`` ``update`` what it changed, as
        ``KeptView.changes`` tells it, and with ``complete`` all rows, which take the place of those before.  A refresh
        that is done again after a crash calls a function with the same number again, and replaces files.

        Raises ``QueryError`` for a query that cannot be kept, and on Spark Connect; ``OptionError`` for a sink that
        cannot take it; ``StateError`` for a folder of another query, or of another sink; and what Spark raises.
        """
        from planner.runtime.batch import classic

        if not classic(self.session):
            raise QueryError("opt.keep needs a classic session, not Spark Connect")
        return keep(self, text, name, state, args, sink, mode)

    def keep_together(
        self,
        queries: Mapping[str, str],
        *,
        state: str | Path,
        args: dict[str, Any] | list[Any] | None = None,
        sinks: Mapping[str, Target] | None = None,
        mode: Mode = "update",
    ) -> KeptViews:
        """Keep the results of several queries over the same streams fresh, each under its name (docs/kept-views.md).

        ``queries`` are by the names of the views, as ``sinks`` are; ``args`` and ``mode`` are for all.  The folder
        ``state`` has each stream once, with the columns and rows that any of the queries needs, and of each view what
        its join has found.  One streaming query refreshes all of them, so that they are always of the same moment.  A
        later call may leave views out, and bring others that need nothing else of the streams: what such a view finds
        in the state it has at once.

        Raises what ``keep`` raises; ``QueryError`` also for a query that is no join of streams on state modules, or one
        with watermarks; ``StateError`` also for a folder whose streams were kept for other queries.
        """
        from planner.runtime.batch import classic

        if not classic(self.session):
            raise QueryError("opt.keep_together needs a classic session, not Spark Connect")
        return keep_together(self, queries, state, args, sinks or {}, mode)

    def stream_plan(
        self,
        text: str,
        args: dict[str, Any] | list[Any] | None = None,
        *,
        state_modules: bool | None = None,
        bins: bool | None = None,
    ) -> StreamPlan:
        """How ``stream`` would run a query: on state modules, or as Spark does, and why.  Runs nothing."""
        return streams.look(self, text, args, state_modules, bins)

    def verify(
        self,
        text: str,
        args: dict[str, Any] | list[Any] | None = None,
        *,
        state_modules: bool | None = None,
        scratch: str | Path | None = None,
    ) -> Verification:
        """Run a query as written and as rewritten, and compare the two multisets of rows inside Spark.

        Over streams it runs once over all that they have now, from where they begin and with a checkpoint of its own,
        and is compared with the batch over the rows that were not late; ``state_modules`` is as in ``stream``.
        ``scratch``: an empty folder that Spark reads and writes, for a copy of these rows, which is removed afterwards;
        without one, a temporary folder of this machine.  Raises ``QueryError`` where there is nothing to compare with,
        and what Spark raises.
        """
        plan = streams.look(self, text, args, state_modules)
        if plan.join and (found := verify_streams(self, plan, scratch)):
            return found
        if plan.versions:
            raise QueryError(plan.refused(plan.reason))
        batch = plan.bins or self.plan(text, args)
        if batch.rewritten and (found := verify_over_copies(self.session, batch, scratch)):
            return found
        return verify(self.session, batch)

    def register_lookup(self, table: str, source: LookupSource) -> None:
        """Let ``table FOR SYSTEM_TIME AS OF PROCTIME()`` in SQL stand for a table that is asked by key.

        A name that is registered again stands for the new source.  Raises ``SourceError`` where the source cannot tell
        its columns, and whatever the source itself raises.
        """
        from planner.runtime.lookup.fetched import source_schema

        name = name_of(table)
        columns = tuple(
            Column(f.name, sql_type(f.dataType.simpleString())) for f in source_schema(self.session, source).fields
        )
        lookup = LookupTable(
            ".".join(map(quote, name)),
            columns,
            source.unique_keys,
            source.fetch_keys,
            source.rows(),
            source.can_scan_share,
        )
        self.declared[name] = Declaration(lookup)
        self.sources[lookup.name] = source

    def declare_versions(self, table: str, key: Iterable[str], valid_from: str) -> None:
        """Promise that each row of ``table`` is a version of the row with its ``key``, valid from a time on.

        A version is valid until the next one of its key begins; no two begin at the same time.  Then
        ``table FOR SYSTEM_TIME AS OF t`` is the versions valid at ``t``.  Of a stream, ``valid_from`` is the column of
        its watermark, and ``stream`` joins rows of another stream once the watermark has reached their time.  Raises
        ``CatalogError``.
        """
        name, (*own, since) = self._columns(table, (*key, valid_from))
        self._declare(name, versions=Versions(tuple(own), since))

    def declare_changelog(
        self, table: str, change_column: str, key: Iterable[str] = (), *, insert_only: bool = False
    ) -> None:
        """Say that the rows of ``table`` are changes of rows, of the kind in ``change_column``.

        Kinds are those of change data feeds: ``insert``, ``update_preimage``, ``update_postimage`` and ``delete``, all
        of which have whole rows.  A join of streams takes such a table for the rows that are there after all its
        changes, and returns changes; where a left join looks them up, no two of these rows may have the same ``key``,
        unless it is NULL.  In a lookup join the changes of the row with a ``key`` keep their order, and so stay in one
        task, unless they are ``insert_only``.  Raises ``CatalogError``.
        """
        name, (change, *own) = self._columns(table, (change_column, *key))
        changelog = Changelog(change, tuple(own), insert_only)
        self._declare(name, changelog=changelog)

    def _declare(self, name: tuple[str, ...], **declared: Any) -> None:
        """Declare something of what a name means now."""
        from planner.runtime.meaning import meant

        self.declared[name] = replace(self.declared.get(name, NOTHING), **declared)
        self.meanings[name, "declared"] = meant(self.session, name)

    def declare_key(self, table: str, columns: Iterable[str], *, enforced: bool = True) -> None:
        """Declare that no two rows of a table or view, as its name means it now, agree in ``columns``.

        A view or table that takes the name later has no such key; what is written into the table does not matter.  Rows
        with a NULL in them may agree.  ``enforced``: whoever writes the table keeps it so; else the key is
        informational and counts only with ``Options(trust_informational_keys=True)``.  Raises ``CatalogError`` for a
        table or column that does not exist.
        """
        from planner.runtime.keys import identity
        from planner.runtime.meaning import meant

        name, own = self._columns(table, tuple(columns))
        full = identity(self.session, name)
        assert full is not None
        key = UniqueKey(own, enforced)
        self.keys[full] = (*(k for k in self.keys.get(full, ()) if k != key), key)
        self.meanings[full, key] = meant(self.session, name)

    def _columns(self, table: str, wanted: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The name of a table, and columns of it as it spells them.  Raises ``CatalogError``."""
        from planner.runtime.catalog import SparkCatalog
        from planner.runtime.keys import identity

        name = name_of(table)
        found = SparkCatalog(self.session).columns(name)
        if found is None or identity(self.session, name) is None:
            tables = [t.name for t in self.session.catalog.listTables()]
            raise CatalogError(f"there is no table {table!r}; {one_of(tables, table)}")
        known = {c.name.lower(): c.name for c in found}
        if not wanted:
            raise CatalogError(f"a key of {table} needs at least one column; possible: {', '.join(known.values())}")
        for column in wanted:
            if column.lower() not in known:
                raise CatalogError(f"{table} has no column {column!r}; {one_of(known.values(), column)}")
        return name, tuple(known[c.lower()] for c in wanted)


def _say(plan: Plan) -> None:
    for warning in plan.warnings:
        _LOG.warning("%s", warning)
