"""What Spark tells of the streams that a statement names."""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, CalendarIntervalType, DataType, MapType, StructType

from planner.errors import brief
from planner.state.stream import Stream

DELAY = "spark.watermarkDelayMs"
_ROW_BY_ROW = frozenset(
    "Project Filter Join SubqueryAlias View EventTimeWatermark StreamingRelation StreamingRelationV2 "
    "StreamingDataSourceV2Relation StreamingDataSourceV2ScanRelation WithCTE CTERelationDef CTERelationRef "
    "ResolvedHint UnresolvedHint".split()
)
_ALIAS = re.compile(r"\bSubqueryAlias (\S+)")
_OPERATOR = re.compile(r"[\s:+\-|]*['~!]*(\w+)")


def schema_of(session: SparkSession, name: tuple[str, ...]) -> StructType:
    """The columns of a table or view."""
    return session.table(quoted(name)).schema


def stream_of(session: SparkSession, name: tuple[str, ...]) -> Stream | None:
    """What a name in SQL stands for, if it is a stream; None for anything else."""
    try:
        frame = session.table(quoted(name))
        if not frame.isStreaming:
            return None
    except PySparkException:
        return None
    watermarked = [f for f in frame.schema.fields if DELAY in f.metadata]
    first = watermarked[0] if watermarked else None
    plan: Any = frame._jdf.queryExecution().analyzed()
    return Stream(
        tuple((f.name, f.dataType.simpleString()) for f in frame.schema.fields),
        first.name if first else None,
        int(first.metadata[DELAY]) if first else 0,
        deterministic(frame),
        reads=tuple(_parts(said) for said in _ALIAS.findall(plan.toString())[1:]),
    )


def _parts(said: str) -> tuple[str, ...]:
    """A name in a plan; a table's without the catalog that all sessions have."""
    parts = tuple(said.split("."))
    return parts[1:] if len(parts) == 3 and parts[0] == "spark_catalog" else parts


def more_than_rows(frame: DataFrame) -> str | None:
    """The operator of an analysed plan that is more than filters, projections and joins; None where there is none."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    for line in plan.toString().splitlines():
        found = _OPERATOR.match(line)
        if found and found[1] not in _ROW_BY_ROW:
            return found[1]
    return None


def why_not_appended(frame: DataFrame) -> str | None:
    """Why Spark would not start a query over streams whose rows are only added; None where it would."""
    if frame.sparkSession.conf.get("spark.sql.streaming.unsupportedOperationCheck") == "false":
        return None
    plan: Any = frame._jdf.queryExecution().analyzed()
    jvm: Any = frame.sparkSession._jvm
    appended = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    try:
        jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, appended)
    except PySparkException as error:
        return brief(error)
    return None


def deterministic(frame: DataFrame) -> bool:
    """Whether an analysed plan computes the same from the same rows, as far as Spark knows."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    return bool(plan.deterministic())


def reads_variable(frame: DataFrame) -> bool:
    """Whether an analysed plan reads a session variable, which the session of an epoch does not have."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    return "variablereference(" in plan.toString()


def without_files(schema: StructType) -> str | None:
    """The first column that Parquet files cannot hold, with its type; None where they hold all."""
    return next((f"{f.name} {f.dataType.simpleString()}" for f in schema if not _in_files(f.dataType)), None)


def held(schema: StructType) -> StructType:
    """The columns that Parquet files can hold."""
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


def quoted(name: tuple[str, ...]) -> str:
    """A name of several parts as SQL."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in name)
