"""Creates materialized views: validates the query, and chooses what the view stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dovetail.optimizer.planning.parameters import bind_literals, make_given, name_parameters
from dovetail.optimizer.streams.queries import NO_LITERAL
from dovetail.optimizer.views.materialized_view import CHANGE, MaterializedView, query_rows, query_rows_as
from dovetail.planner.errors import QueryError, Refused, Unsupported, summarize
from dovetail.planner.logical import Logical, Scan
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.sql.table_names import name_of
from dovetail.planner.state.fingerprint import Given
from dovetail.planner.state.sink import Sink
from dovetail.planner.state.spec import MEANING, described_settings
from dovetail.planner.types.schema import SqlType, sql_type
from dovetail.rules.context import Context
from dovetail.rules.stream.accumulators import Accumulators
from dovetail.rules.stream.grouped_subquery import grouped_subquery
from dovetail.rules.stream.view_query import ViewQuery, view_query

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from dovetail.executor.state.stored_rows import StoredRows
    from dovetail.optimizer.views.materialized_view import Streams
    from dovetail.planner.state.sink import Mode, Target

_REFUSED = "this query cannot be maintained incrementally"
_RESULT_CHANGES = ("STREAMING_OUTPUT_MODE", "NON_TIME_WINDOW")  # Spark's conditions for rows that are not only added


@dataclass(frozen=True)
class ViewDefinition:
    """A materialized view as a user defines it: a query under a name, with the folder of its state."""

    name: str
    text: str
    args: Any
    state: str | Path

    @property
    def folder(self) -> str:
        """The folder of the state.  Raises ``QueryError`` for an empty name."""
        if not str(self.state or "").strip():
            raise QueryError("state is empty; name a folder in which the view stores its rows")
        return str(self.state).rstrip("/")


def materialize(opt: Streams, view: ViewDefinition, sink: Target | None, mode: Mode) -> MaterializedView:
    """Make or reopen a materialized view, and refresh it.

    Raises ``QueryError``, ``OptionError``, ``StateError``.
    """
    from dovetail.executor.state.stored_rows import StoredRows

    prepared = prepare_view(opt, view, partial(StoredRows, opt.session, view.folder))
    return open_view(prepared, sink, mode).refresh()


def prepare_view(opt: Streams, view: ViewDefinition, rows: Callable[[StructType], StoredRows]) -> MaterializedView:
    """Prepare a view with its state in a folder; ``rows`` makes the store for rows of a schema.

    The folder need not exist.  Raises ``QueryError``, without the values of arguments, for a query that cannot be
    maintained, and what Spark raises.
    """
    numbered, arguments = name_parameters(view.text, view.args)
    given = make_given(numbered, arguments)
    try:
        return _prepare_view(opt, replace(view, text=numbered, args=arguments), given, rows)
    except QueryError as no:
        if not given.texts:
            raise
        raise QueryError(given.masked(no.reason), no.place) from None


def _prepare_view(
    opt: Streams, view: ViewDefinition, given: Given, rows: Callable[[StructType], StoredRows]
) -> MaterializedView:
    from dovetail.executor.catalog.spark_catalog import SparkCatalog
    from dovetail.executor.catalog.views import check_view_name
    from dovetail.executor.session.batch import run
    from dovetail.executor.session.schemas import add_text_column, drop_column
    from dovetail.executor.state.streams import stream_of

    name, state = view.name, view.folder
    check_view_name(opt.session, name)
    schema = run(opt.session, view.text, view.args).schema
    bound = bind_literals(view.text, view.args) if view.args else view.text
    if bound is None:
        raise QueryError(f"{_REFUSED}: {NO_LITERAL}")
    catalog = SparkCatalog(opt.session, declared=opt.declarations.changelogs())
    ctx = Context(catalog, opt.options)
    try:
        logical, _ = from_sql(bound, catalog.settings)
        query = view_query(logical, ctx)
    except Refused as no:
        raise QueryError(f"{_REFUSED}: {no}") from no
    found = run(opt.session, query.joined)
    if not found.isStreaming:
        raise QueryError(
            "No relation of this query is a stream, so there is nothing to maintain. Read one of its inputs by "
            "spark.readStream, or make an ordinary view"
        )
    _check(logical, query, found.schema, name)
    if stream_of(opt.session, name_of(name)):
        raise QueryError(f"{name} is a stream, which the view would hide from its readers; give the view another name")
    plan = opt.stream_plan(query.joined, state_modules=True)
    if plan.reason and plan.changelog:
        raise QueryError(f"{_REFUSED}: {plan.describe_refusal(plan.reason)}")
    if plan.join is None and not plan.bins:
        _check_appended(found, grouped_subquery(logical), plan.reason)
    if query.change:
        schema, bound = run(opt.session, query.text).schema, query.text
    joined = found.schema
    if query.change:
        joined = add_text_column(drop_column(joined, query.change), query.change)
    none = opt.session.createDataFrame([], joined)
    found_accumulators = query.accumulated(partial(_infer_types, none, query.rows))
    if isinstance(found_accumulators, Accumulators):
        found_accumulators = _accumulators_refusal(none, found_accumulators, schema) or found_accumulators
    if isinstance(found_accumulators, str):
        _check_over_rows(none, query.above, schema)
        return MaterializedView(opt, name, bound, given, state, query, schema, rows(joined), None, found_accumulators)
    files = query_rows(none, found_accumulators.of_rows).schema
    return MaterializedView(opt, name, bound, given, state, query, schema, rows(files), found_accumulators, "")


def open_view(view: MaterializedView, sink: Target | None, mode: Mode) -> MaterializedView:
    """Open the folder of a view, and attach its sink, if there is one.

    Raises ``OptionError`` for a sink that cannot take the rows, ``QueryError`` if the view cannot return its changes,
    and ``StateError`` for a folder of another query, or of another sink.
    """
    from dovetail.executor.session.schemas import add_text_column
    from dovetail.executor.state.files import HadoopFolder
    from dovetail.executor.state.sink_places import check_apart, check_no_earlier
    from dovetail.executor.state.sinks import check_schema, output_of_view, sink_identity, sink_place

    session = view.opt.session
    settings = dict(described_settings(session.conf.get(name) or "" for name in MEANING))
    stored = view.accumulators.of_rows if view.accumulators else "its rows"
    identity = {"join": view.query.joined, "stored": stored, "settings": settings}
    if sink is None:
        view.rows.open({**identity, "sink": "none"}, view.given, "none")
        return view
    check_apart(session, sink, view.state)
    _ = output_of_view(session, sink, mode, "")
    _check_changes(view, mode)
    replaced = mode == "complete"
    written = view.schema if replaced else add_text_column(view.schema, CHANGE)
    check_schema(session, sink, written, casts=replaced)
    kind = sink if isinstance(sink, str) else sink.format.lower() if isinstance(sink, Sink) else "a function"
    parts = {"path": "", "partition_by": "", **sink_place(session, sink)}
    one = f"{sink_identity(session, sink)}, {mode}"
    owner = view.rows.open({**identity, "sink": one}, view.given, f"{kind}, {mode}", parts)
    if view.rows.shared and not replaced:
        names = HadoopFolder(session, f"{view.state}/sinks")
        place = view.rows.folder.below("").rstrip("/").rpartition("/")[2]
        check_no_earlier(session, sink, names, f"{place}-{view.rows.name}", owner)
    if not replaced:
        view.results.check()
    return replace(view, out=output_of_view(session, sink, mode, owner), replaces=replaced)


def _check_changes(view: MaterializedView, mode: Mode) -> None:
    """Raise ``QueryError`` if a view cannot return the changes of its result."""
    from dovetail.executor.session.schemas import schema_or_error
    from dovetail.executor.state.streams import is_immutable

    if mode == "complete":
        return
    if twice := next((c for c in view.schema.names if c.lower() == CHANGE), None):
        raise QueryError(f"the view has a column {twice}, a name that is reserved for the kind of change; rename it")
    if isinstance(error := schema_or_error(view.changes), Exception):
        raise QueryError(
            f"the changes of this view cannot be added up: {summarize(error)}; write mode='complete'"
        ) from error
    if not is_immutable(view.table()):
        raise QueryError(
            "the changes of this view cannot be added up: it calls a function that may return another value at each "
            "refresh, such as rand() or now(). Call the function in a query over the view, or write mode='complete'"
        )


def _check(logical: Logical, query: ViewQuery, joined: StructType, name: str) -> None:
    """Raise ``QueryError`` if a query reads its own view, or if its rows cannot be stored or added up."""
    from dovetail.executor.session.schemas import drop_column
    from dovetail.executor.state.changes import nonadditive_reason
    from dovetail.executor.state.streams import unstorable_column

    view_name = tuple(map(str.lower, name_of(name)))
    if any(isinstance(n, Scan) and tuple(map(str.lower, n.name)) == view_name for n in logical.walk()):
        raise QueryError(f"the query reads {name}; give the view another name")
    if odd := unstorable_column(joined):
        raise QueryError(f"files cannot hold the column {odd} of the joined rows; leave it out, or cast it in a view")
    if char_column := next((f.name for f in joined if "__CHAR_VARCHAR_TYPE_STRING" in f.metadata), None):
        column = query.joined.partition(f" AS {char_column}")[0].split()[-1]
        raise QueryError(f"{column} is CHAR or VARCHAR, and its rows would be read back as STRING; cast it in a view")
    if query.change and (no := nonadditive_reason(drop_column(joined, query.change))):
        raise QueryError(f"{_REFUSED}: {no}; name it with COLLATE UTF8_BINARY in a view")


def _check_appended(joined: DataFrame, subquery: str, reason: str) -> None:
    """Raise ``QueryError`` if Spark would refuse the query for the joined rows, which state modules do not run.

    ``subquery``: the one whose result changes as more rows arrive, if it stands in the query and not in a view.
    ``reason``: why state modules do not run it; empty if it joins no two streams.
    """
    from dovetail.executor.state.streams import append_error, join_refusal

    why = append_error(joined)
    if why and str(why.getCondition()).startswith(_RESULT_CHANGES):
        what = subquery or "a view or subquery in FROM has GROUP BY, DISTINCT, UNION or the like"
        raise QueryError(
            f"{_REFUSED}: {what}, whose result changes as more rows arrive ({summarize(why)}); "
            "keep the join with the rows themselves, and put the rest into a query over the view"
        )
    if refusal := summarize(why) if why else join_refusal(joined):
        ours = f"{reason}, and " if reason else ""
        raise QueryError(f"{_REFUSED}: {ours}Spark does not run it as a stream: {refusal}")


def _check_over_rows(none: DataFrame, above: str, schema: StructType) -> None:
    """Raise ``QueryError`` if the clauses above a join return something else over its stored rows."""
    from dovetail.executor.session.schemas import schema_or_error

    found = schema_or_error(partial(query_rows_as, none, above, schema))
    if isinstance(found, Exception):
        raise QueryError(
            f"{_REFUSED}: over its stored rows Spark does not take {' '.join(above.split())}: "
            f"{summarize(found)}; name columns there without their relation, or give them other names in a view"
        ) from found
    if not _have_same_types(found, schema):
        raise QueryError(
            f"{_REFUSED}: over its stored rows Spark would return {found.simpleString()}, "
            f"and not {schema.simpleString()}; cast the columns that differ, in the query or in a view"
        )


def _infer_types(rows: DataFrame, relations: str, expressions: Sequence[str]) -> Sequence[SqlType]:
    """Return the types of expressions over joined rows.  Raises ``Unsupported``."""
    from dovetail.executor.session.schemas import schema_or_error

    found = schema_or_error(partial(query_rows, rows, f"SELECT {', '.join(expressions)} FROM {relations}"))
    if isinstance(found, Exception):
        raise Unsupported(str(found).partition("\n")[0]) from found
    return [sql_type(f.dataType.simpleString()) for f in found]


def _accumulators_refusal(none: DataFrame, accumulators: Accumulators, schema: StructType) -> str:
    """Return why accumulators give other types than the query; empty if they give the same."""
    from dovetail.executor.session.schemas import schema_or_error

    found = schema_or_error(lambda: query_rows_as(query_rows(none, accumulators.of_rows), accumulators.above, schema))
    merged = schema_or_error(lambda: query_rows(query_rows(none, accumulators.of_rows), accumulators.merged))
    if isinstance(found, Exception):
        return f"Spark does not analyze the accumulators: {summarize(found)}"
    if isinstance(merged, Exception):
        return f"Spark does not analyze the accumulators: {summarize(merged)}"
    return "" if _have_same_types(found, schema) else f"accumulators would return {found.simpleString()}"


def _have_same_types(rows: StructType, schema: StructType) -> bool:
    """Whether rows have the types of a schema; nullability is ignored, since all columns of a stream are nullable."""
    return [f.dataType.simpleString() for f in rows] == [f.dataType.simpleString() for f in schema]
