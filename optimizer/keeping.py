"""What is asked of a query before a view keeps it fresh, and what the view stores of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from optimizer.kept import CHANGE, KeptView, over, over_joined
from optimizer.parameters import bound, named
from optimizer.stream_epochs import changelogs
from optimizer.streams import NO_LITERAL
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
from rules.stream.grouped_subquery import grouped_subquery
from rules.stream.kept_view import KeptQuery, kept_query
from rules.stream.stream_blocks import NotTaken

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from optimizer.kept import Streams
    from planner.runtime.state.kept_rows import KeptRows
    from planner.state.sink import Mode, Target


def keep(opt: Streams, text: str, name: str, state: str | Path, args: Any, sink: Target | None, mode: Mode) -> KeptView:
    """Take a query apart and find its rows for the first time, or go on.

    Raises ``QueryError``, ``OptionError``, ``StateError``.
    """
    from planner.runtime.state.kept_rows import KeptRows

    folder = folder_of(state)
    view = prepared(opt, text, name, args, folder, partial(KeptRows, opt.session, folder))
    return opened(view, sink, mode).refresh()


def folder_of(state: str | Path) -> str:
    """The folder of a view.  Raises ``QueryError`` for no name at all."""
    if not str(state).strip():
        raise QueryError("state is empty; give a folder in which the view keeps what it has found")
    return str(state).rstrip("/")


def prepared(
    opt: Streams, text: str, name: str, args: Any, state: str, rows: Callable[[StructType], KeptRows]
) -> KeptView:
    """A query as a view, with its state in a folder; ``rows`` makes the place for what its join finds, by its columns.

    The folder need not be there yet.  Raises ``QueryError`` for a query that cannot be kept, and what Spark raises.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    from planner.runtime.batch import run
    from planner.runtime.catalog import SparkCatalog
    from planner.runtime.views import check_view_name

    check_view_name(opt.session, name)
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
    found = run(opt.session, query.joined)
    if not found.isStreaming:
        raise QueryError("no relation of this query is a stream; there is nothing to keep fresh")
    _check(logical, query, found.schema, name)
    plan = opt.stream_plan(query.joined, state_modules=True)
    if plan.reason and plan.changelog:
        raise QueryError(f"this query cannot be kept fresh: {plan.refused(plan.reason)}")
    if plan.join is None and not plan.bins:
        _check_appended(found, grouped_subquery(logical), plan.reason)
    if query.change:
        schema, said = run(opt.session, query.text).schema, query.text
    joined = StructType([f for f in found.schema if f.name != query.change])
    if query.change:
        joined = StructType([*joined, StructField(query.change, StringType())])
    none = opt.session.createDataFrame([], joined)
    kept = query.accumulated(ctx, partial(_types, none, query.rows))
    if isinstance(kept, Accumulators) and (wrong := _other_answer(none, kept, schema)):
        kept = wrong
    if isinstance(kept, str):
        _check_over_rows(none, query.above, schema)
        return KeptView(opt, name, said, state, query, schema, rows(joined), None, kept)
    files = over_joined(none, kept.of_rows).schema
    return KeptView(opt, name, said, state, query, schema, rows(files), kept, "")


def opened(view: KeptView, sink: Target | None, mode: Mode) -> KeptView:
    """A view whose folder is its own, and which writes to a sink, if one is given.

    Raises ``OptionError`` for a sink that cannot take it, ``QueryError`` where its changes cannot be told, and
    ``StateError`` for a folder of another query, or of another sink.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    from planner.runtime.state.sinks import check_table, output_of_view

    session = view.opt.session
    settings = {name: session.conf.get(name) for name in MEANING}
    kept = view.kept.of_rows if view.kept else "its rows"
    told = {"join": view.query.joined, "stored": kept, "settings": settings}
    if sink is None:
        view.rows.open({**told, "sink": "none"})
        return view
    _ = output_of_view(session, sink, mode, "")
    _check_changes(view, mode)
    replaced = mode == "complete"
    written = view.schema if replaced else StructType([*view.schema, StructField(CHANGE, StringType())])
    check_table(session, sink, written, casts=replaced)
    to = sink if isinstance(sink, str) else f"{sink.format} {sink.path}" if isinstance(sink, Sink) else "a function"
    owner = view.rows.open({**told, "sink": f"{to}, {mode}"})
    return replace(view, out=output_of_view(session, sink, mode, owner), replaces=replaced)


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


def _check_appended(joined: DataFrame, subquery: str, reason: str) -> None:
    """Raise ``QueryError`` where Spark would not start the query for the joined rows, which state modules do not take.

    ``subquery``: the one that changes as more rows arrive, if the query shows it; a temporary view may hide it.
    ``reason``: why state modules do not take it; nothing where it joins no two streams.
    """
    from planner.runtime.state.streams import why_not_appended

    why = why_not_appended(joined)
    if why and ("STREAMING_OUTPUT_MODE" in why or "NON_TIME_WINDOW" in why):
        what = subquery or "a view or subquery in FROM has GROUP BY, DISTINCT, UNION or the like"
        raise QueryError(
            f"this query cannot be kept fresh: {what}, whose result changes as more rows arrive ({why}); "
            "keep the join with the rows themselves, and put the rest into a query over the view"
        )
    if why:
        ours = f"{reason}, and " if reason else ""
        raise QueryError(f"this query cannot be kept fresh: {ours}Spark does not run it as a stream: {why}")


def _check_over_rows(none: DataFrame, above: str, schema: StructType) -> None:
    """Raise ``QueryError`` where the clauses above a join do not return over its stored rows what the query returns."""
    from pyspark.errors import PySparkException

    try:
        found = over(none, above, schema)
    except PySparkException as error:
        raise QueryError(
            f"this query cannot be kept fresh: over its stored rows Spark does not take {' '.join(above.split())}: "
            f"{brief(error)}; name columns there without their relation, or give them other names in a view"
        ) from error
    if not _alike(found, schema):
        raise QueryError(
            f"this query cannot be kept fresh: over its stored rows Spark would return {found.schema.simpleString()}, "
            f"and not {schema.simpleString()}; cast the columns that differ, in the query or in a view"
        )


def _types(rows: DataFrame, relations: str, expressions: Sequence[str]) -> Sequence[SqlType]:
    """The types of expressions over joined rows.  Raises ``Unsupported``."""
    from pyspark.errors import PySparkException

    try:
        found = over_joined(rows, f"SELECT {', '.join(expressions)} FROM {relations}").schema
    except PySparkException as error:
        raise Unsupported(str(error).partition("\n")[0]) from error
    return [sql_type(f.dataType.simpleString()) for f in found]


def _other_answer(none: DataFrame, kept: Accumulators, schema: StructType) -> str:
    """Why accumulators do not return what the query returns, as far as types go; nothing where they do."""
    from pyspark.errors import PySparkException

    try:
        found = over(over_joined(none, kept.of_rows), kept.above, schema)
        _ = over_joined(over_joined(none, kept.of_rows), kept.merged).schema
    except PySparkException as error:
        return f"Spark does not take them: {brief(error)}"
    return "" if _alike(found, schema) else f"they would be {found.schema.simpleString()}"


def _alike(rows: DataFrame, schema: StructType) -> bool:
    """Whether rows have the types of a schema; what Spark says of streams is that all of it may be NULL."""
    return [f.dataType.simpleString() for f in rows.schema] == [f.dataType.simpleString() for f in schema]
