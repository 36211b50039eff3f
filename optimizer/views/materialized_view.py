"""A materialized view over streams: each refresh joins the new rows and adds the result to the stored files.

The files hold a row of accumulators for each group and epoch if the query can be computed from these, else the joined
rows.  The clauses above the join are computed from the files whenever the view is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.executor.state.store import Store
from dovetail.optimizer.streams.epochs import Planner
from dovetail.optimizer.streams.plan import StreamMode, StreamPlan
from dovetail.optimizer.streams.queries import StreamQuery
from dovetail.optimizer.streams.start import StreamStart
from dovetail.optimizer.verification import Verification
from dovetail.optimizer.verify.streams import verify_streams
from dovetail.optimizer.views.refresh import (
    await_end,
    check_checkpoint,
    check_epochs,
    end_refresh,
    finish_interrupted,
    refresh_lock,
)
from dovetail.planner.errors import QueryError
from dovetail.planner.explain.html.page import render_page
from dovetail.planner.state.fingerprint import Given
from dovetail.planner.state.sink import Destination
from dovetail.rules.stream.accumulators import JOINED, Accumulators
from dovetail.rules.stream.view_query import ViewQuery

CHANGE = "_change_type"
"""The column with the kind of change of a row of the result."""

if TYPE_CHECKING:
    from typing import Protocol

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from dovetail.executor.state.sinks import Output
    from dovetail.executor.state.stored_results import StoredResults
    from dovetail.executor.state.stored_rows import StoredRows

    class RefreshGroup(Protocol):
        """Views that are refreshed together."""

        def refresh(self) -> object: ...

    class Streams(Planner, Protocol):
        """The part of an optimizer that a materialized view needs."""

        def stream_plan(self, text: str, args: Any = None, *, state_modules: bool | None = None) -> StreamPlan: ...


@dataclass(frozen=True, repr=False)
class MaterializedView:
    """A query over streams under a ``name``, whose join results and state are stored in a folder.

    ``given`` is the query with its arguments, and ``text`` has their values.  ``schema`` is that of the query.
    ``accumulators`` describes what is stored for each group; None if joined rows are stored, because of
    ``rows_reason``.  ``out``, if there is one, takes the changes of each refresh, or all rows if ``replaces``.
    ``group``: the views that share its state, if there are several; they are refreshed together.
    """

    opt: Streams
    name: str
    text: str
    given: Given
    state: str
    query: ViewQuery
    schema: StructType
    rows: StoredRows
    accumulators: Accumulators | None
    rows_reason: str
    out: Output | None = None
    replaces: bool = False
    group: RefreshGroup | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"MaterializedView({self.name}, state={self.state})"

    def refresh(self) -> MaterializedView:
        """Read all rows that have arrived since the last refresh, and update the view and those that share its state.

        Only new rows are read and joined; a refresh that was killed resumes.  A second thread waits for the first.
        Raises what ``Optimizer.stream`` raises.
        """
        if self.group:
            self.group.refresh()
            return self
        from dovetail.executor.state.files import HadoopFolder

        with refresh_lock(self.opt.session, self.state):
            store = Store(HadoopFolder(self.opt.session, f"{self.state}/checkpoint"))
            check_checkpoint(store, (self,))
            check_epochs(store, (self,))
            finish_interrupted((self,), store)
            self.begin()
            await_end(self._start(), store, self.name)
            self.write_to_sink()
            end_refresh((self,), store)
        return self

    def _start(self) -> StreamingQuery:
        to = Destination(f"{self.state}/checkpoint", self.add, "available now")
        query = StreamQuery(self.query.joined, state_modules=True)
        return StreamStart(self.opt, query, to, view=self.given).start()

    def begin(self) -> None:
        """Begin a refresh, or resume one that has not ended."""
        self.rows.begin(self._merge_epochs)

    def add(self, rows: DataFrame, epoch: int) -> None:
        """Store the rows of an epoch."""
        self.rows.add(self._reduce(rows), epoch)

    def write_to_sink(self) -> None:
        """Write the result of a refresh to the sink, if there is one; a second call writes the same rows."""
        if self.out is None:
            return
        number = self.rows.refresh
        if self.replaces:
            self.out.write(self._compute_result(self.rows.read()), number, again=True)
            return
        if self.results.possible and not self.results.has(number):
            self.results.write(self._compute_result(self.rows.read()), number)
        self.out.write(self.changes(), number, again=True)

    @property
    def has_begun_to_write(self) -> bool:
        """Whether a refresh that has not ended has begun to write to the sink."""
        writes = self.out is not None and not self.replaces
        return writes and not self.rows.ended and self.results.has(self.rows.refresh)

    def end(self, epoch: int) -> None:
        """End a refresh: the view shows its rows from here on."""
        needed = tuple(filter(None, self._stored_results))
        self.rows.end(epoch, needed)
        if self.out and not self.replaces:
            self.results.remove_all_but(needed)
        self.table().createOrReplaceTempView(self.name)

    @property
    def _stored_results(self) -> tuple[str, str]:
        """The folders of the results before and after the newest refresh, as a sink of changes has them; or empty."""
        from dovetail.executor.state.stored_results import folder_of_result

        if self.out is None or self.replaces:
            return "", ""
        newest = folder_of_result(self._newest)
        earlier = [name for name in self.rows.results if name < newest]
        return earlier[-1] if earlier else "", newest if self.results.has(self._newest) else ""

    @property
    def _newest(self) -> int:
        """The number that the newest refresh had when it began; its end counts, too."""
        return self.rows.refresh - self.rows.ended

    @property
    def results(self) -> StoredResults:
        """The results that have been written to the sink."""
        from dovetail.executor.state.stored_results import StoredResults

        return StoredResults(self.opt.session, self.rows.folder, self.schema, self.rows.remedy)

    def table(self) -> DataFrame:
        """Return the result as of the last refresh that has ended."""
        return self._compute_result(self.rows.read_ended())

    def changes(self) -> DataFrame:
        """Return how the last refresh changed the result: rows, with ``delete`` or ``insert`` in ``_change_type``.

        If a refresh has begun and not ended, these are its changes so far.  The column is named as in change data
        feeds; an updated row is deleted and inserted.  Before the first refresh there was no row, not even the one that
        an aggregate without groups returns for empty input.  Raises ``QueryError`` if equal texts may differ, by their
        collation.
        """
        from dovetail.executor.state.changes import add_count, nonadditive_reason, to_changes

        if why := nonadditive_reason(self.schema):
            raise QueryError(f"The changes of {self.name} cannot be added up: {why}")
        earlier, newest = self._stored_results
        after = self.results.read(newest) if newest else self._compute_result(self.rows.read())
        counted = add_count(after, 1)
        if not self.rows.first:
            before = self.results.read(earlier) if earlier else self._compute_result(self.rows.read(before=True))
            counted = counted.unionAll(add_count(before, -1))
        return to_changes(counted, CHANGE)

    def explain(self, mode: StreamMode = "plan") -> str:
        """Describe how a refresh finds the new joined rows, what it stores, and how the view is computed from that.

        ``html``: as a page.  Raises what ``StreamPlan.explain`` raises.
        """
        plan = self.opt.stream_plan(self.query.joined, state_modules=True)
        reason = f"the joined rows are stored: {self.rows_reason}" if self.rows_reason and not self.accumulators else ""
        if mode == "html":
            explanation = plan.explanation()
            notes = (*explanation.notes, *([f"{reason[0].upper()}{reason[1:]}."] if reason else []))
            return render_page(replace(explanation, notes=notes, queries=self._stored_queries()))
        queries = (f"{title}:\n\n{query}" for title, query in self._stored_queries())
        return "\n\n".join([plan.explain(mode), *([reason] if reason else []), *queries])

    def _stored_queries(self) -> tuple[tuple[str, str], ...]:
        """What is stored of the joined rows, and the view over that, as titled queries."""
        if self.accumulators is None:
            return (("the view, over the joined rows", self.query.above),)
        return (
            ("stored of the joined rows", self.accumulators.of_rows),
            ("the view, over what is stored", self.accumulators.above),
        )

    def verify(self, scratch: str | Path | None = None) -> Verification:
        """Compare the view with a recomputation over all rows of its streams, as ``Optimizer.verify`` does.

        The stored rows are not read.  Raises ``QueryError`` if the view has no join on state modules.
        """
        plan = self.opt.stream_plan(self.query.joined, state_modules=True)
        found = verify_streams(
            self.opt, plan, scratch, text=self.text, above=lambda rows: self._compute_result(self._reduce(rows))
        )
        if found is None:
            why = plan.reason or "it joins no two streams"
            raise QueryError(f"{self.name} has nothing to verify, since its rows do not come from state modules: {why}")
        return found

    def _reduce(self, rows: DataFrame) -> DataFrame:
        """Reduce joined rows to what is stored of them."""
        return query_rows(rows, self.accumulators.of_rows) if self.accumulators else rows

    def _merge_epochs(self, rows: DataFrame) -> DataFrame:
        """Merge the stored rows of several epochs."""
        from dovetail.executor.state.changes import net_changes

        if self.accumulators:
            return query_rows(rows, self.accumulators.merged)
        return net_changes(rows, self.query.change) if self.query.change else rows

    def _compute_result(self, stored: DataFrame) -> DataFrame:
        """Compute the result of the query from stored rows."""
        from dovetail.executor.state.changes import current_rows

        if self.accumulators:
            return query_rows_as(stored, self.accumulators.above, self.schema)
        rows = current_rows(stored, self.query.change) if self.query.change else stored
        return query_rows_as(rows, self.query.above, self.schema)


def query_rows_as(rows: DataFrame, text: str, schema: StructType) -> DataFrame:
    """Run a query over rows under the view name ``JOINED``; the columns get the names of a schema."""
    return query_rows(rows, text).toDF(*schema.names)


def query_rows(rows: DataFrame, text: str) -> DataFrame:
    """Run a query over rows under the view name ``JOINED``."""
    from dovetail.executor.session.batch import run
    from dovetail.executor.session.temporary_views import temporary_view

    session: SparkSession = rows.sparkSession
    with temporary_view(session, JOINED, rows):
        return run(session, text)
