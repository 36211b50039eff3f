"""A view kept fresh: files hold what the join of a query has found, and each refresh adds what new rows make of it.

They hold a row of accumulators for each group and epoch where these tell all that the query asks, else the joined rows.
The clauses above the join are computed from them at each look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from optimizer.parameters import bound, named
from optimizer.stream_epochs import Planner, changelogs
from optimizer.streams import NO_LITERAL, StreamPlan
from optimizer.verify import Verification
from optimizer.verify_streams import verify_streams
from planner.errors import QueryError, Unsupported, brief
from planner.logical import Logical, Scan
from planner.sql.from_sql import from_sql
from planner.sql.names import Unresolved
from planner.sql.table_names import name_of
from planner.state.sink import Sink
from planner.state.spec import MEANING
from planner.types.schema import SqlType, sql_type
from rules.context import Context
from rules.stream.accumulators import Accumulators
from rules.stream.kept_view import JOINED, KeptQuery, kept_query
from rules.stream.stream_blocks import NotTaken

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
    from planner.state.sink import Mode, Target

    class Streams(Planner, Protocol):
        """What is asked of an optimizer here."""

        def stream_plan(self, text: str, args: Any = None, *, state_modules: bool | None = None) -> StreamPlan: ...

        def stream(
            self,
            text: str,
            args: Any = None,
            *,
            checkpoint: str | Path,
            sink: Any,
            trigger: str | None = None,
            state_modules: bool | None = None,
        ) -> StreamingQuery: ...


@dataclass(frozen=True)
class KeptView:
    """A query over streams under a ``name``, with what its join has found and its state in a folder.

    ``schema`` is that of the query.  ``kept`` tells the accumulators that are stored; None where joined rows are, for
    the reason ``why_rows``.  ``out``, if it is given, takes what each refresh changed, or all rows if ``replaces``.
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

    def refresh(self) -> KeptView:
        """Take all that has arrived since the last time, and make the view anew.

        Only what is new is read and joined; a refresh that was killed goes on where it was.  Of two threads the second
        waits.  Raises what ``Optimizer.stream`` raises.
        """
        with _REFRESHES.setdefault(self.state, Lock()):
            return self._refreshed()

    def _refreshed(self) -> KeptView:
        self.rows.begin(self._merged)
        started = self.opt.stream(
            self.query.joined,
            checkpoint=f"{self.state}/checkpoint",
            sink=self._add,
            trigger="available now",
            state_modules=True,
        )
        started.awaitTermination()
        if self.out:
            self.out.write(self.table() if self.replaces else self.changes(), self.rows.refresh, again=True)
        self.rows.end()
        self.table().createOrReplaceTempView(self.name)
        return self

    def table(self) -> DataFrame:
        """The result over all rows that were there at the last refresh."""
        return self._result(self.rows.read())

    def changes(self) -> DataFrame:
        """How the last refresh changed the result: its rows with their kind, ``delete`` or ``insert``, behind them.

        The column is ``_change_type``, as in change data feeds; a row that has changed is taken away and added.  Before
        the first refresh there was no row, not even the one that an aggregate without groups has over nothing.  Raises
        ``QueryError`` where equal texts may differ, by their collation.
        """
        from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

        from planner.runtime.state.changes import as_changes, why_not_added_up
        from planner.state.changes import COUNT

        if why := why_not_added_up(self.schema):
            raise QueryError(f"its changes cannot be added up: {why}")
        counted = self.table().withColumn(COUNT, F.lit(1))
        if not self.rows.first:
            before = self._result(self.rows.read(before=True))
            counted = counted.unionAll(before.withColumn(COUNT, F.lit(-1)))
        return as_changes(counted, CHANGE)

    def explain(self) -> str:
        """How a refresh finds the new joined rows, what is stored of them, and how the view is computed from that."""
        plan = self.opt.stream_plan(self.query.joined, state_modules=True).explain()
        if self.kept is None:
            why = f"\n\nthe joined rows are kept: {self.why_rows}" if self.why_rows else ""
            return f"{plan}{why}\n\nand over the joined rows:\n\n{self.query.above}"
        return f"{plan}\n\nkept of the joined rows:\n\n{self.kept.of_rows}\n\nand over these:\n\n{self.kept.above}"

    def verify(self, scratch: str | Path | None = None) -> Verification:
        """Compare with recomputing, as ``Optimizer.verify`` does: over all that the streams have, from their beginning.

        What is stored is not read.  Raises ``QueryError`` where there is no join that state modules take.
        """
        plan = self.opt.stream_plan(self.query.joined, state_modules=True)
        found = verify_streams(
            self.opt, plan, scratch, text=self.text, above=lambda rows: self._result(self._kept(rows))
        )
        if found is None:
            raise QueryError(f"Spark's own query finds the rows, and there is nothing to compare with: {plan.reason}")
        return found

    def _add(self, rows: DataFrame, epoch: int) -> None:
        """Keep what an epoch has found."""
        self.rows.add(self._kept(rows), epoch)

    def _kept(self, rows: DataFrame) -> DataFrame:
        """What is kept of joined rows."""
        return _asked(rows, self.kept.of_rows) if self.kept else rows

    def _merged(self, rows: DataFrame) -> DataFrame:
        """What several epochs have found as one."""
        from planner.runtime.state.changes import netted

        if self.kept:
            return _asked(rows, self.kept.merged)
        return netted(rows, self.query.change) if self.query.change else rows

    def _result(self, kept: DataFrame) -> DataFrame:
        """What the query returns over what is kept."""
        from planner.runtime.state.changes import current

        if self.kept:
            return _over(kept, self.kept.above, self.schema)
        rows = current(kept, self.query.change) if self.query.change else kept
        return _over(rows, self.query.above, self.schema)


def keep(opt: Streams, text: str, name: str, state: str | Path, args: Any, sink: Target | None, mode: Mode) -> KeptView:
    """Take a query apart and find its rows for the first time, or go on.

    Raises ``QueryError``, ``OptionError``, ``StateError``.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    from planner.runtime.batch import run
    from planner.runtime.catalog import SparkCatalog
    from planner.runtime.state.kept_rows import KeptRows
    from planner.runtime.state.sinks import check_table, output_of_view
    from planner.runtime.views import check_view_name

    check_view_name(opt.session, name)
    if not str(state).strip():
        raise QueryError("state is empty; give a folder in which the view keeps what it has found")
    numbered, arguments = named(text, args)
    schema = run(opt.session, numbered, arguments).schema
    said = bound(numbered, arguments) if arguments else numbered
    if said is None:
        raise QueryError(f"this query cannot be kept fresh: {NO_LITERAL}")
    catalog = SparkCatalog(opt.session, None, None, changelogs(opt), None, opt.meanings)
    ctx = Context(catalog, opt.options)
    try:
        logical, _ = from_sql(said, catalog.settings)
        query = kept_query(logical, ctx)
    except (NotTaken, Unresolved, Unsupported) as no:
        raise QueryError(f"this query cannot be kept fresh: {no}") from no
    rows = run(opt.session, query.joined)
    if not rows.isStreaming:
        raise QueryError("no relation of this query is a stream; there is nothing to keep fresh")
    _check(logical, query, rows.schema, name)
    plan = opt.stream_plan(query.joined, state_modules=True)
    if plan.reason and plan.changelog:
        raise QueryError(f"this query cannot be kept fresh: {plan.refused(plan.reason)}")
    if query.change:
        schema, said = run(opt.session, query.text).schema, query.text
    joined = StructType([f for f in rows.schema if f.name != query.change])
    if query.change:
        joined = StructType([*joined, StructField(query.change, StringType())])
    none = opt.session.createDataFrame([], joined)
    kept = query.accumulated(ctx, partial(_types, none, query.rows))
    if isinstance(kept, Accumulators) and (wrong := _other_answer(none, kept, schema)):
        kept = wrong
    if isinstance(kept, str):
        _check_over_rows(none, query.above, schema)
    found, why = (kept, "") if isinstance(kept, Accumulators) else (None, kept)
    files = _asked(none, found.of_rows).schema if found else joined
    own = KeptRows(opt.session, str(state).rstrip("/"), files)
    settings = {name: opt.session.conf.get(name) for name in MEANING}
    view = KeptView(opt, name, said, str(state).rstrip("/"), query, schema, own, found, why)
    told = {"join": query.joined, "kept": found.of_rows if found else "its rows", "settings": str(settings)}
    if sink is None:
        own.open({**told, "sink": "none"})
        return view.refresh()
    _ = output_of_view(opt.session, sink, mode, "")
    _check_changes(view, mode)
    replaced = mode == "complete"
    written = schema if replaced else StructType([*schema, StructField(CHANGE, StringType())])
    check_table(opt.session, sink, written, casts=replaced)
    to = sink if isinstance(sink, str) else f"{sink.format} {sink.path}" if isinstance(sink, Sink) else "a function"
    owner = own.open({**told, "sink": f"{to}, {mode}"})
    out = output_of_view(opt.session, sink, mode, owner)
    return replace(view, out=out, replaces=mode == "complete").refresh()


def _check_changes(view: KeptView, mode: Mode) -> None:
    """Raise ``QueryError`` where the result of a view cannot be told as changes."""
    from pyspark.errors import PySparkException

    if mode == "complete":
        return
    if twice := next((c for c in view.schema.names if c.lower() == CHANGE), None):
        raise QueryError(f"the view has a column {twice}, under which its changes say what they are; name it otherwise")
    try:
        _ = view.changes().schema
    except PySparkException as error:
        raise QueryError(
            f"the changes of this view cannot be added up: {brief(error)}; write mode='complete'"
        ) from error


def _check(logical: Logical, query: KeptQuery, joined: StructType, name: str) -> None:
    """Raise ``QueryError`` where a query reads its own view, or rows cannot be stored or added up as they are."""
    from pyspark.sql.types import StructType

    from planner.runtime.state.changes import why_not_added_up
    from planner.runtime.state.streams import without_files

    own = tuple(map(str.lower, name_of(name)))
    if any(isinstance(n, Scan) and tuple(map(str.lower, n.name)) == own for n in logical.walk()):
        raise QueryError(f"the query reads {name}; give the view another name")
    if odd := without_files(joined):
        raise QueryError(f"files cannot hold the column {odd} of the joined rows; leave it out, or cast it in a view")
    if padded := next((f.name for f in joined if "__CHAR_VARCHAR_TYPE_STRING" in f.metadata), None):
        column = query.joined.partition(f" AS {padded}")[0].split()[-1]
        raise QueryError(f"{column} is CHAR or VARCHAR, and its rows would be read back as STRING; cast it in a view")
    if query.change and (no := why_not_added_up(StructType([f for f in joined if f.name != query.change]))):
        raise QueryError(f"this query cannot be kept fresh: {no}; name it with COLLATE UTF8_BINARY in a view")


def _check_over_rows(none: DataFrame, above: str, schema: StructType) -> None:
    """Raise ``QueryError`` where the clauses above a join do not return over its stored rows what the query returns."""
    from pyspark.errors import PySparkException

    try:
        over = _over(none, above, schema)
    except PySparkException as error:
        raise QueryError(
            f"this query cannot be kept fresh: over its stored rows Spark does not take {' '.join(above.split())}: "
            f"{brief(error)}; name columns there without their relation, or give them other names in a view"
        ) from error
    if not _alike(over, schema):
        raise QueryError(f"this query cannot be kept fresh: over its rows it would return {over.schema.simpleString()}")


def _types(rows: DataFrame, relations: str, expressions: Sequence[str]) -> Sequence[SqlType]:
    """The types of expressions over joined rows.  Raises ``Unsupported``."""
    from pyspark.errors import PySparkException

    try:
        found = _asked(rows, f"SELECT {', '.join(expressions)} FROM {relations}").schema
    except PySparkException as error:
        raise Unsupported(str(error).partition("\n")[0]) from error
    return [sql_type(f.dataType.simpleString()) for f in found]


def _other_answer(none: DataFrame, kept: Accumulators, schema: StructType) -> str:
    """Why accumulators do not return what the query returns, as far as types go; nothing where they do."""
    from pyspark.errors import PySparkException

    try:
        found = _over(_asked(none, kept.of_rows), kept.above, schema)
        _ = _asked(_asked(none, kept.of_rows), kept.merged).schema
    except PySparkException as error:
        return f"Spark does not take them: {brief(error)}"
    return "" if _alike(found, schema) else f"they would be {found.schema.simpleString()}"


def _alike(rows: DataFrame, schema: StructType) -> bool:
    """Whether rows have the types of a schema; what Spark says of streams is that all of it may be NULL."""
    return [f.dataType.simpleString() for f in rows.schema] == [f.dataType.simpleString() for f in schema]


def _over(rows: DataFrame, text: str, schema: StructType) -> DataFrame:
    """What a query returns over rows that go by the name ``JOINED``, under the names of a schema."""
    return _asked(rows, text).toDF(*schema.names)


def _asked(rows: DataFrame, text: str) -> DataFrame:
    from planner.runtime.batch import run
    from planner.runtime.own_views import OWN_VIEWS

    session: SparkSession = rows.sparkSession
    with OWN_VIEWS:
        rows.createOrReplaceTempView(JOINED)
        try:
            return run(session, text)
        finally:
            session.catalog.dropTempView(JOINED)
