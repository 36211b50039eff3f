"""Distributes rows over tasks: equal keys to one task, hot keys and NULLs to all."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from dovetail.executor.lookup.metrics import is_connect
from dovetail.executor.session.pyspark_versions import VariantType
from dovetail.planner.expr import quote

_SAMPLE = 100_000  # rows in the sample for hot keys
_MOST = 1_000  # hot keys


def task_count(session: SparkSession) -> int:
    """Return the number of tasks that fetch: the shuffle partitions, at most two per core, since each task connects."""
    partitions = int(session.conf.get("spark.sql.shuffle.partitions") or 200)
    if is_connect(session):
        return partitions
    return max(1, min(partitions, 2 * session.sparkContext.defaultParallelism))


def distribute_rows(session: SparkSession, frame: DataFrame, keys: list[str], *, skew: bool) -> DataFrame:
    """Send rows with equal keys to one task; rows with a NULL in the key, which fetch nothing, to any.

    With ``skew`` the rows of hot keys are spread over all tasks too, by a hash of the whole row: rows that are equal
    stay together, and a task that runs again gets the same rows.
    """
    count = task_count(session)
    columns = [fn.col(f"`{name}`") for name in keys]
    anywhere = columns[0].isNull()
    for column in columns[1:]:
        anywhere |= column.isNull()
    if skew and (hot := hot_keys(frame.select(*columns), count)):
        anywhere |= fn.xxhash64(*columns).isin(hot)
    row = [fn.col(quote(field.name)) for field in frame.schema if _is_hashable(field.dataType)]
    return frame.repartition(count, *columns, fn.when(anywhere, fn.xxhash64(*row)))


def hot_keys(keys: DataFrame, count: int) -> list[int]:
    """Return the hashes of keys that exceed a fifth of one task's expected rows, estimated from a sample.

    This runs a job over the keys.  A missed key or a hash collision costs time, and never changes the result.
    """
    total = keys.count()
    if total == 0:
        return []
    hashed = keys.select(fn.xxhash64(*keys.columns).alias("key"))
    sampled = hashed.sample(fraction=min(1.0, _SAMPLE / total), seed=0) if total > _SAMPLE else hashed
    counted = sampled.groupBy("key").count()
    least = min(total, _SAMPLE) / count / 5
    rows = counted.filter(fn.col("count") > max(least, 1)).orderBy(fn.desc("count")).limit(_MOST).collect()
    return [row["key"] for row in rows]


def _is_hashable(type_: DataType) -> bool:
    """Whether Spark hashes values of this type."""
    if isinstance(type_, MapType | VariantType):
        return False
    if isinstance(type_, ArrayType):
        return _is_hashable(type_.elementType)
    return not isinstance(type_, StructType) or all(_is_hashable(field.dataType) for field in type_.fields)
