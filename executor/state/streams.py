"""Reads the properties of streams from Spark's analyzed plans."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from dovetail.executor.catalog.keys import identity
from dovetail.executor.catalog.measurement_cache import items
from dovetail.executor.catalog.repeatable import parse_analyzed_plan
from dovetail.executor.session.batch import classic
from dovetail.executor.session.pyspark_versions import CalendarIntervalType
from dovetail.executor.state.files import HadoopFolder
from dovetail.planner.errors import QueryError
from dovetail.planner.expr.functions import ROW_FUNCTIONS
from dovetail.planner.state.stream import Stream

DELAY = "spark.watermarkDelayMs"
_ROW_BY_ROW = frozenset(
    "Project Filter Join SubqueryAlias View EventTimeWatermark StreamingRelation StreamingRelationV2 "
    "StreamingDataSourceV2Relation StreamingDataSourceV2ScanRelation WithCTE CTERelationDef CTERelationRef "
    "ResolvedHint UnresolvedHint".split()
)
_CERTAIN = ROW_FUNCTIONS | {"CAST", "BETWEEN"}
_CALL = re.compile(r"([A-Za-z_]\w*)\(")
_OPERATOR = re.compile(r"(?:\A|^[\s:]*[+:]- )['~!]*(\w+)", re.MULTILINE)  # a relation or literal may have several lines


def stream_of(session: SparkSession, name: tuple[str, ...], declared: Iterable[tuple[str, ...]] = ()) -> Stream | None:
    """Return the stream behind a name in SQL; None if it is no stream.

    ``declared``: names of tables and views; the result lists those that the stream reads.
    """
    try:
        frame = session.table(quote_name(name))
        if not frame.isStreaming:
            return None
    except PySparkException:
        return None
    watermarked = [f for f in frame.schema.fields if DELAY in f.metadata]
    first = watermarked[0] if watermarked else None
    return Stream(
        tuple((f.name, f.dataType.simpleString()) for f in frame.schema.fields),
        first.name if first else None,
        int(first.metadata[DELAY]) if first else 0,
        is_deterministic(frame),
        reads=_reads(session, frame, declared),
    )


def _reads(session: SparkSession, frame: DataFrame, names: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Return those of ``names`` that the analyzed plan of a table or view reads."""
    full = {name: identity(session, name) for name in names}
    if not full:
        return ()
    if not classic(session):
        # the text of a plan has names without quotes: one that has the last part of a name may mean that table
        inner = "\n".join(line for line in plan_text(frame).splitlines()[1:] if _names_relation(line))
        return tuple(n for n, table in full.items() if table and re.search(rf"(?i)\b{re.escape(table[-1])}\b", inner))
    plan: Any = frame._jdf.queryExecution().analyzed()
    there = {_folded(name) for name in [*_relations(plan)][1:]}
    return tuple(name for name, table in full.items() if table and _folded(table) in there)


def _names_relation(line: str) -> bool:
    """Whether a line of the text of an analyzed plan has an operator that names a table or view."""
    found = _OPERATOR.match(line)
    return found is not None and (found[1] == "SubqueryAlias" or "Relation" in found[1])


def plan_text(frame: DataFrame) -> str:
    """Return the text of an analyzed plan; on Spark Connect it is cut out of an explanation, and empty if it cannot."""
    if classic(frame.sparkSession):
        plan: Any = frame._jdf.queryExecution().analyzed()
        return str(plan.toString())
    explained = frame._explain_string(extended=True)  # type: ignore[operator]
    return parse_analyzed_plan(str(explained)) or ""


def _relations(plan: Any) -> Iterator[tuple[str, ...]]:
    """Yield the full names of the tables and views that an analyzed plan reads, each before those that it reads itself.

    Aliases in a query are left out.
    """
    children = items(plan.children())
    if plan.nodeName() == "SubqueryAlias":
        qualifier = items(plan.identifier().qualifier())
        if children[0].nodeName() == "View" or (qualifier and not items(children[0].children())):
            yield (*qualifier, plan.identifier().name())
    for child in children:
        yield from _relations(child)


def _folded(name: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(str.lower, name))


def stateful_operator(frame: DataFrame) -> str | None:
    """Return an operator of an analyzed plan other than filters, projections and joins; None if there is none."""
    text = plan_text(frame)
    if not text:
        return "that the server does not show"
    operators = (found[1] for found in _OPERATOR.finditer(text))
    return next((name for name in operators if name not in _ROW_BY_ROW), None)


def append_error(frame: DataFrame) -> PySparkException | None:
    """Return the error with which Spark refuses to run a query over streams in append mode; None if it runs it."""
    if frame.sparkSession.conf.get("spark.sql.streaming.unsupportedOperationCheck") == "false":
        return None
    plan: Any = frame._jdf.queryExecution().analyzed()
    jvm: Any = frame.sparkSession._jvm
    appended = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    try:
        jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, appended)
    except PySparkException as error:
        return error
    return None


def join_refusal(frame: DataFrame) -> str:
    """Return why Spark cannot plan a join of two streams in a query; empty if it can.

    Spark raises this error in the first micro-batch, when the checkpoint exists already.  So its planning strategy runs
    here, on the optimized plan.  A client of Spark Connect cannot run it, and returns an empty text.
    """
    if not classic(frame.sparkSession):
        return ""
    spark: Any = frame.sparkSession._jsparkSession
    analyzed: Any = frame._jdf.queryExecution().analyzed()
    if not any(_joined_streams(analyzed)):
        return ""
    state = spark.sessionState()
    try:
        for join in _joined_streams(state.optimizer().execute(analyzed)):
            state.planner().StreamingJoinStrategy().apply(join)
    except (AnalysisException, IllegalArgumentException) as error:
        return str(error).strip().partition("\n")[0].rstrip(";.")
    return ""


def check_joins(frame: DataFrame, checkpoint: str) -> None:
    """Raise ``QueryError`` if Spark would refuse a join of streams after it has begun to fill the checkpoint."""
    if not classic(frame.sparkSession) or HadoopFolder(frame.sparkSession, checkpoint).inside("commits"):
        return
    if refused := join_refusal(frame):
        raise QueryError(
            f"Spark cannot run this join of streams: {refused}. Add an equality or a band of columns of both streams "
            "to its condition; Spark's own join needs an equality or bins"
        )


def _joined_streams(plan: Any) -> Iterator[Any]:
    """Yield the joins of two streams in a plan."""
    if plan.nodeName() == "Join" and plan.left().isStreaming() and plan.right().isStreaming():
        yield plan
    for child in items(plan.children()):
        yield from _joined_streams(child)


def is_deterministic(frame: DataFrame) -> bool:
    """Whether an analyzed plan is certainly deterministic."""
    if not classic(frame.sparkSession):
        return calls_row_functions_alone(plan_text(frame))
    plan: Any = frame._jdf.queryExecution().analyzed()
    return bool(plan.deterministic())


def calls_row_functions_alone(plan: str) -> bool:
    """Whether the text of an analyzed plan certainly has no function but deterministic built-in ones."""
    if not plan or "more fields" in plan or ")#" in plan:  # the number of a function of the user's
        return False
    return all(name.upper() in _CERTAIN for name in _CALL.findall(plan))


def is_immutable(frame: DataFrame) -> bool:
    """Whether all functions of a query are immutable: it has no ``rand()``, ``now()`` or ``user()``."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    jvm: Any = frame.sparkSession._jvm
    current = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    return bool(plan.deterministic()) and not plan.containsPattern(current)


def reads_variable(frame: DataFrame) -> bool:
    """Whether an analyzed plan reads a session variable, which the session of an epoch does not have."""
    return "variablereference(" in plan_text(frame)


def unstorable_column(schema: StructType) -> str | None:
    """Return the first column that Parquet files cannot hold, with its type; None if they can hold all."""
    return next((f"{f.name} {f.dataType.simpleString()}" for f in schema if not _in_files(f.dataType)), None)


def storable_columns(schema: StructType) -> StructType:
    """Return the columns that Parquet files can hold."""
    return StructType([f for f in schema if _in_files(f.dataType)])


def _in_files(type_: DataType) -> bool:
    match type_:
        case CalendarIntervalType():
            return False
        case ArrayType():
            return _in_files(type_.elementType)
        case MapType():
            return _in_files(type_.keyType) and _in_files(type_.valueType)
        case StructType():
            names = {f.name.lower() for f in type_}
            return 0 < len(names) == len(type_) and all(_in_files(f.dataType) for f in type_)
    return True


def quote_name(name: tuple[str, ...]) -> str:
    """Quote a name of several parts as SQL."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in name)
