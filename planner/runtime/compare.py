"""Compare two DataFrames as multisets, inside Spark."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType


def compare(left: DataFrame, right: DataFrame) -> tuple[int, int, int]:
    """Rows of ``left``; how many of them ``right`` lacks; how many ``right`` has beyond them; by multiplicity."""
    names = [f"c{n}" for n in range(len(left.columns))]
    sides = []
    for frame, sign in ((left, 1), (right, -1)):
        renamed = frame.toDF(*names)
        keys = [_comparable(fn.col(n), f.dataType).alias(n) for n, f in zip(names, frame.schema.fields, strict=True)]
        sides.append(renamed.select(*keys, fn.lit(sign).alias("sign")))
    counted = (
        sides[0]
        .unionAll(sides[1])
        .groupBy(*names)
        .agg(fn.sum("sign").alias("more"), fn.sum(fn.when(fn.col("sign") > 0, 1).otherwise(0)).alias("left"))
    )
    row = counted.agg(
        fn.coalesce(fn.sum("left"), fn.lit(0)),
        fn.coalesce(fn.sum(fn.greatest("more", fn.lit(0))), fn.lit(0)),
        fn.coalesce(fn.sum(fn.greatest(-fn.col("more"), fn.lit(0))), fn.lit(0)),
    ).collect()[0]
    return int(row[0]), int(row[1]), int(row[2])


def _comparable(column: Column, type_: DataType) -> Column:
    """A column that GROUP BY takes: what it does not take is compared as JSON."""
    return fn.to_json(column) if isinstance(type_, MapType) or _has_map(type_) else column


def _has_map(type_: DataType) -> bool:
    if isinstance(type_, StructType):
        return any(_has_map(f.dataType) for f in type_.fields)
    if isinstance(type_, ArrayType):
        return _has_map(type_.elementType)
    return isinstance(type_, MapType | VariantType)
