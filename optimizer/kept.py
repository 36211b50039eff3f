"""A view kept fresh: files hold what the join of a query has found, and each refresh adds what new rows make of it.

They hold a row of accumulators for each group and epoch where these tell all that the query asks, else the joined rows.
The clauses above the join are computed from them at each look.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from optimizer.stream_epochs import Planner
from optimizer.streams import StreamPlan, start, start_planned
from optimizer.verify import Verification
from optimizer.verify_streams import verify_streams
from planner.errors import QueryError
from rules.stream.accumulators import Accumulators
from rules.stream.kept_view import JOINED, KeptQuery

_REFRESHES: dict[str, Lock] = {}  # by the folder of a view
CHANGE = "_change_type"
"""The column that says how a row of the result changed."""

if TYPE_CHECKING:
    from typing import Protocol

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from planner.runtime.state.kept_rows import KeptRows
    from planner.runtime.state.sinks import Output

    class Refreshed(Protocol):
        """Views that are refreshed together."""

        def refresh(self) -> object: ...

    class Streams(Planner, Protocol):
        """What is asked of an optimizer here."""

        def stream_plan(self, text: str, args: Any = None, *, state_modules: bool | None = None) -> StreamPlan: ...


def one_at_a_time(state: str) -> Lock:
    """What a refresh of the folder of a view holds while it runs."""
    return _REFRESHES.setdefault(state, Lock())


@dataclass(frozen=True, repr=False)
class KeptView:
    """A query over streams under a ``name``, with what its join has found and its state in a folder.

    ``schema`` is that of the query.  ``kept`` tells the accumulators that are stored; None where joined rows are, for
    the reason ``why_rows``.  ``out``, if it is given, takes what each refresh changed, or all rows if ``replaces``.
    ``together``: the views that share its state, if others do; they are refreshed together.
    """

    opt: Streams
    name: str
    text: str
    state: str
    query: KeptQuery
    schema: StructType
    rows: KeptRows
    kept: Accumulators | None
    why_rows: str
    out: Output | None = None
    replaces: bool = False
    together: Refreshed | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"KeptView({self.name}, state={self.state})"

    def refresh(self) -> KeptView:
        """Take all that has arrived since the last time, and make the view anew; views that share its state as well.

        Only what is new is read and joined; a refresh that was killed goes on where it was.  Of two threads the second
        waits.  Raises what ``Optimizer.stream`` raises.
        """
        if self.together:
            self.together.refresh()
            return self
        with one_at_a_time(self.state):
            self.begin()
            self._start().awaitTermination()
            self.tell()
            self.end()
        return self

    def _start(self) -> StreamingQuery:
        text, folder = self.query.joined, f"{self.state}/checkpoint"
        to: Any = {"checkpoint": folder, "sink": self.add, "trigger": "available now", "mode": "append", "name": None}
        begun = start(self.opt, text, None, **to, ttl=None, asked=True, bins=None, of_a_view=True)
        return begun or start_planned(self.opt, text, None, **to)

    def begin(self) -> None:
        """Begin a refresh, or go on with one that has not ended."""
        self.rows.begin(self._merged)

    def add(self, rows: DataFrame, epoch: int) -> None:
        """Store what an epoch has found."""
        self.rows.add(self._kept(rows), epoch)

    def tell(self) -> None:
        """Write what a refresh has found to the sink, if there is one."""
        if self.out:
            whole = self._result(self.rows.read())
            self.out.write(whole if self.replaces else self.changes(), self.rows.refresh, again=True)

    def end(self) -> None:
        """End a refresh: what it has found is shown from here on."""
        self.rows.end()
        self.table().createOrReplaceTempView(self.name)

    def table(self) -> DataFrame:
        """The result as of the last refresh that has ended."""
        return self._result(self.rows.read(before=not self.rows.ended))

    def changes(self) -> DataFrame:
        """How the last refresh changed the result: its rows with their kind, ``delete`` or ``insert``, behind them.

        Of a refresh that has begun and not ended: what it has found so far.
        The column is ``_change_type``, as in change data feeds; a row that has changed is taken away and added.  Before
        the first refresh there was no row, not even the one that an aggregate without groups has over nothing.  Raises
        ``QueryError`` where equal texts may differ, by their collation.
        """
        from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

        from planner.runtime.state.changes import as_changes, why_not_added_up
        from planner.state.changes import COUNT

        if why := why_not_added_up(self.schema):
            raise QueryError(f"its changes cannot be added up: {why}")
        counted = self._result(self.rows.read()).withColumn(COUNT, F.lit(1))
        if not self.rows.first:
            before = self._result(self.rows.read(before=True))
            counted = counted.unionAll(before.withColumn(COUNT, F.lit(-1)))
        return as_changes(counted, CHANGE)

    def explain(self) -> str:
        """How a refresh finds the new joined rows, what is stored of them, and how the view is computed from that."""
        plan = self.opt.stream_plan(self.query.joined, state_modules=True).explain()
        if self.kept is None:
            why = f"\n\nthe joined rows are stored: {self.why_rows}" if self.why_rows else ""
            return f"{plan}{why}\n\nthe view, over the joined rows:\n\n{self.query.above}"
        stored = f"stored of the joined rows:\n\n{self.kept.of_rows}"
        return f"{plan}\n\n{stored}\n\nthe view, over what is stored:\n\n{self.kept.above}"

    def verify(self, scratch: str | Path | None = None) -> Verification:
        """Compare with recomputing, as ``Optimizer.verify`` does: over all that the streams have, from their beginning.

        What is stored is not read.  Raises ``QueryError`` where there is no join that state modules take.
        """
        plan = self.opt.stream_plan(self.query.joined, state_modules=True)
        found = verify_streams(
            self.opt, plan, scratch, text=self.text, above=lambda rows: self._result(self._kept(rows))
        )
        if found is None:
            why = plan.reason or "it joins no two streams"
            raise QueryError(f"Spark's own query finds the rows of this view, and there is nothing to compare: {why}")
        return found

    def _kept(self, rows: DataFrame) -> DataFrame:
        """What is kept of joined rows."""
        return over_joined(rows, self.kept.of_rows) if self.kept else rows

    def _merged(self, rows: DataFrame) -> DataFrame:
        """What several epochs have found as one."""
        from planner.runtime.state.changes import netted

        if self.kept:
            return over_joined(rows, self.kept.merged)
        return netted(rows, self.query.change) if self.query.change else rows

    def _result(self, kept: DataFrame) -> DataFrame:
        """What the query returns over what is kept."""
        from planner.runtime.state.changes import current

        if self.kept:
            return over(kept, self.kept.above, self.schema)
        rows = current(kept, self.query.change) if self.query.change else kept
        return over(rows, self.query.above, self.schema)


def over(rows: DataFrame, text: str, schema: StructType) -> DataFrame:
    """What a query returns over rows that go by the name ``JOINED``, under the names of a schema."""
    return over_joined(rows, text).toDF(*schema.names)


def over_joined(rows: DataFrame, text: str) -> DataFrame:
    """What a query returns over rows that go by the name ``JOINED``."""
    from planner.runtime.batch import run
    from planner.runtime.own_views import OWN_VIEWS

    session: SparkSession = rows.sparkSession
    with OWN_VIEWS:
        rows.createOrReplaceTempView(JOINED)
        try:
            return run(session, text)
        finally:
            session.catalog.dropTempView(JOINED)
