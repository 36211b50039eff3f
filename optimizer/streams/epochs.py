"""Builds the epochs of a join of streams from its plan, and validates the schemas of their statements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dovetail.executor.state.store import Store
from dovetail.optimizer.session.declarations import Declarations
from dovetail.optimizer.session.planner import SessionPlanner
from dovetail.planner.errors import summarize
from dovetail.planner.state.progress import EpochProgress
from dovetail.planner.state.spec import StreamJoin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from dovetail.executor.state.answers import JoinRequest
    from dovetail.executor.state.epochs import Epochs
    from dovetail.executor.state.sinks import Output
    from dovetail.optimizer.options import Options
    from dovetail.optimizer.planning.plan import Plan

_RECENT = "spark.sql.streaming.numRecentProgressUpdates"


class Planner(Protocol):
    """The part of an optimizer that streams need."""

    declarations: Declarations

    def __init__(self, session: SparkSession, options: Options | None = None) -> None: ...

    @property
    def session(self) -> SparkSession: ...
    @property
    def options(self) -> Options: ...

    def plan(self, text: str, /, args: Any = None) -> Plan: ...

    def declare_versions(self, table: str, key: Iterable[str], valid_from: str) -> None: ...


@dataclass(frozen=True)
class Schemas:
    """The schemas of a join: of each input, of the rows of an epoch's statements, and of the rows of the query.

    The last two are the same unless an input is a changelog: statements count its rows, and the query returns changes.
    """

    inputs: tuple[StructType, ...]
    answer: StructType
    returned: StructType


def analyze_schemas(session: SparkSession, join: StreamJoin) -> Schemas | str:
    """Analyze a join and the statements of its epochs; return their schemas, or why the join is left to Spark.

    Both must return the same columns, and only filters and projections may stand above the join.
    """
    from dovetail.executor.session.requests import analyze
    from dovetail.executor.session.schemas import add_text_column, drop_last_column, select_columns
    from dovetail.executor.state.answers import schema_of_answer
    from dovetail.executor.state.streams import is_deterministic, reads_variable, stateful_operator, unstorable_column

    native = analyze(session, join.analyzed)
    if isinstance(native, str):
        return native  # Spark's own error comes when it runs
    if operator := stateful_operator(native[0]):
        return f"its plan has the operator {operator}"
    if reads_variable(native[0]):
        return "it reads a session variable, which may change between two epochs"
    if join.changes and not is_deterministic(native[0]):
        return "it is not deterministic: a row may have other values when it is deleted than when it was inserted"
    inputs = tuple(session.table(i.relation).schema for i in join.inputs)
    for input_, schema in zip(join.inputs, inputs, strict=True):
        stored = {column.name for column in input_.columns}
        if odd := unstorable_column(select_columns(schema, stored)):
            return f"files cannot hold the column {odd} of {input_.name}"
    answer = schema_of_answer(session, join, inputs)
    if isinstance(answer, str):
        return f"Spark does not take the statement of an epoch: {answer}"
    shown = drop_last_column(answer) if join.changes else answer
    if _columns(native[1]) != _columns(shown):
        return f"the statement of an epoch returns {_columns(shown)} and not {_columns(native[1])}"
    if join.changes and (no := _changes_refusal(session, shown, answer, join.changes)):
        return no
    if join.changes:
        shown = add_text_column(shown, join.changes)
    return Schemas(inputs, answer, shown)


def _changes_refusal(session: SparkSession, shown: StructType, answer: StructType, change: str) -> str:
    """Return why rows of this schema, whose last column counts them, cannot be changes; empty if they can."""
    from dovetail.executor.session.schemas import schema_or_error
    from dovetail.executor.state.changes import nonadditive_reason, to_changes
    from dovetail.executor.state.segments import empty_rows

    if twice := next((name for name in shown.names if name.lower() == change.lower()), None):
        return f"its rows have a column {twice}, which is the name of the column with the kind of change; rename it"
    error = schema_or_error(lambda: to_changes(empty_rows(session, answer), change))
    if isinstance(error, Exception):
        return f"its rows cannot be added up: {summarize(error)}"
    return nonadditive_reason(shown)


@dataclass(frozen=True)
class StatementPlanner:
    """Plans the statements of epochs like any other statement."""

    options: Options

    def __call__(self, inside: SparkSession, statement: str) -> str:
        """Return the statement that runs in the session of an epoch."""
        return SessionPlanner(inside, self.options, Declarations(inside)).plan_part(statement).sql()


def make_request(opt: Planner, join: StreamJoin, schemas: Schemas, output: Output, name: str = "") -> JoinRequest:
    """Make a request for the rows of a join in each epoch; its statements are planned like any other."""
    from dovetail.executor.state.answers import JoinRequest

    return JoinRequest(join, schemas.answer, output, StatementPlanner(opt.options), name)


def make_epochs(
    session: SparkSession,
    join: StreamJoin,
    schemas: tuple[StructType, ...],
    store: Store,
    requests: tuple[JoinRequest, ...],
) -> Epochs:
    """Make the epochs of joins over the inputs of ``join``, whose columns are ``schemas``."""
    from dovetail.executor.state.epochs import Epochs
    from dovetail.executor.state.segments import Segments

    policy = session.conf.get("spark.sql.streaming.multipleWatermarkPolicy", "min") or "min"
    progress = EpochProgress([i.name for i in join.inputs], int(session.conf.get(_RECENT) or 0))
    return Epochs(join, requests, store, Segments(store, join, schemas), policy, progress)


def _columns(schema: Any) -> str:
    return ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in schema.fields)
