"""Compare two DataFrames as multisets, inside Spark."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType


def compare(left: DataFrame, right: DataFrame) -> tuple[int, int, int]:
    """Rows of ``left``; how many of them ``right`` lacks; how many ``right`` has beyond them; by multiplicity."""
    names = [f"c{n}" for n in range(len(left.columns))]
    sides = []
    for frame, sign in ((left, 1), (right, -1)):
        renamed = frame.toDF(*names)
        keys = [_comparable(F.col(n), f.dataType).alias(n) for n, f in zip(names, frame.schema.fields, strict=True)]
        sides.append(renamed.select(*keys, F.lit(sign).alias("sign")))
    counted = (
        sides[0]
        .unionAll(sides[1])
        .groupBy(*names)
        .agg(F.sum("sign").alias("more"), F.sum(F.when(F.col("sign") > 0, 1).otherwise(0)).alias("left"))
    )
    row = counted.agg(
        F.coalesce(F.sum("left"), F.lit(0)),
        F.coalesce(F.sum(F.greatest("more", F.lit(0))), F.lit(0)),
        F.coalesce(F.sum(F.greatest(-F.col("more"), F.lit(0))), F.lit(0)),
    ).collect()[0]
    return int(row[0]), int(row[1]), int(row[2])


def _comparable(column: Column, type_: DataType) -> Column:
    """A column that GROUP BY takes: what it does not take is compared as JSON."""
    return F.to_json(column) if isinstance(type_, MapType) or _has_map(type_) else column


def _has_map(type_: DataType) -> bool:
    if isinstance(type_, StructType):
        return any(_has_map(f.dataType) for f in type_.fields)
    if isinstance(type_, ArrayType):
        return _has_map(type_.elementType)
    return isinstance(type_, MapType | VariantType)
