"""From the plan of a join of streams to its epochs on a session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from planner.catalog import UniqueKey
from planner.catalog.declared import Declaration
from planner.errors import brief
from planner.state.progress import Told
from planner.state.spec import StreamJoin
from planner.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from optimizer.options import Options
    from optimizer.plan import Plan
    from planner.runtime.meaning import Meaning
    from planner.runtime.state.answers import Asked
    from planner.runtime.state.epochs import Epochs
    from planner.runtime.state.sinks import Output

_RECENT = "spark.sql.streaming.numRecentProgressUpdates"


class Planner(Protocol):
    """What is asked of an optimizer here."""

    session: SparkSession
    options: Options
    declared: dict[tuple[str, ...], Declaration]
    keys: dict[tuple[str, ...], tuple[UniqueKey, ...]]
    meanings: dict[Any, Meaning | None]

    def __init__(self, session: SparkSession, options: Options | None = None) -> None: ...

    def plan(self, text: str, args: Any = None) -> Plan: ...

    def declare_versions(self, table: str, key: Iterable[str], valid_from: str) -> None: ...


def changelogs(opt: Planner) -> dict[tuple[str, ...], Declaration]:
    """What an optimizer has been told of tables whose rows are changes."""
    return {name: Declaration(changelog=said.changelog) for name, said in opt.declared.items() if said.changelog}


def changes_and_versions(opt: Planner) -> dict[tuple[str, ...], Declaration]:
    """What an optimizer has been told of tables that decides how they are joined as streams."""
    found = ((name, replace(said, lookup=None)) for name, said in opt.declared.items())
    return {name: said for name, said in found if said.changelog or said.versions}


@dataclass(frozen=True)
class Schemas:
    """The columns of each input, all of them; of what an epoch's statements return, and of what the query returns.

    These are the same unless an input is a changelog: its rows are counted in the first, and are changes in the second.
    """

    inputs: tuple[StructType, ...]
    answer: StructType
    returned: StructType


def schemas_of(session: SparkSession, join: StreamJoin) -> Schemas | str:
    """What Spark says of a join and of the statements of its epochs; or why it is left to Spark.

    Both must return the same columns, and nothing but filters and projections may stand around the join.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    from planner.runtime.batch import analysed
    from planner.runtime.state.answers import schema_of_answer
    from planner.runtime.state.streams import deterministic, more_than_rows, reads_variable, without_files

    native = analysed(session, join.analysed)
    if isinstance(native, str):
        return native  # Spark's own error comes when it runs
    if operator := more_than_rows(native[0]):
        return f"its plan has the operator {operator}"
    if reads_variable(native[0]):
        return "it reads a session variable, which may change between two epochs"
    if join.changes and not deterministic(native[0]):
        return "it is not deterministic: a row may be another one when it goes than when it came"
    inputs = tuple(session.table(i.relation).schema for i in join.inputs)
    for input_, schema in zip(join.inputs, inputs, strict=True):
        kept = {column.name for column in input_.columns}
        if odd := without_files(StructType([f for f in schema if f.name in kept])):
            return f"files cannot hold the column {odd} of {input_.name}"
    answer = schema_of_answer(session, join, inputs)
    if isinstance(answer, str):
        return f"Spark does not take the statement of an epoch: {answer}"
    shown = StructType(answer.fields[:-1]) if join.changes else answer
    if _columns(native[1]) != _columns(shown):
        return f"the statement of an epoch returns {_columns(shown)} and not {_columns(native[1])}"
    if join.changes and (no := _not_as_changes(session, shown, answer, join.changes)):
        return no
    if join.changes:
        shown = StructType([*shown, StructField(join.changes, StringType())])
    return Schemas(inputs, answer, shown)


def _not_as_changes(session: SparkSession, shown: StructType, answer: StructType, change: str) -> str:
    """Why rows of this schema, whose last column counts them, cannot be returned as changes; nothing if they can."""
    from pyspark.errors import PySparkException

    from planner.runtime.state.changes import as_changes, why_not_added_up
    from planner.runtime.state.segments import empty

    if twice := next((name for name in shown.names if name.lower() == change.lower()), None):
        return f"its rows have a column {twice}, under which they are to say how they change; name it otherwise"
    try:
        _ = as_changes(empty(session, answer), change).schema
    except PySparkException as error:
        return f"its rows cannot be added up: {brief(error)}"
    return why_not_added_up(shown)


def epochs_of(
    opt: Planner,
    join: StreamJoin,
    schemas: Schemas,
    store: Store,
    output: Output,
    ttl: float | None,
    *,
    of_a_view: bool = False,
) -> Epochs:
    """The epochs of a join; ``ttl`` is in seconds."""
    one = asked(opt, join, schemas, output)
    return epochs_with(opt, join, schemas.inputs, store, (one,), ttl, of_a_view=of_a_view)


def asked(opt: Planner, join: StreamJoin, schemas: Schemas, output: Output, name: str = "") -> Asked:
    """A join as the epochs ask it: each of its statements is planned as any other of the optimizer's."""
    from planner.runtime.state.answers import Asked

    def plan(inside: SparkSession, block: str) -> str:
        return type(opt)(inside, opt.options).plan(block).sql()

    return Asked(join, schemas.answer, output, plan, name)


def epochs_with(
    opt: Planner,
    join: StreamJoin,
    schemas: tuple[StructType, ...],
    store: Store,
    joins: tuple[Asked, ...],
    ttl: float | None = None,
    *,
    of_a_view: bool,
) -> Epochs:
    """The epochs of ``joins`` over the inputs of ``join``, whose columns are ``schemas``."""
    from planner.runtime.state.epochs import Epochs
    from planner.runtime.state.segments import Segments

    policy = opt.session.conf.get("spark.sql.streaming.multipleWatermarkPolicy", "min") or "min"
    told = Told([i.name for i in join.inputs], int(opt.session.conf.get(_RECENT) or 0))
    return Epochs(join, joins, store, Segments(store, join, schemas), ttl, policy, told, of_a_view)


def _columns(schema: Any) -> str:
    return ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in schema.fields)
