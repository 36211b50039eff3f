"""Compares two DataFrames as multisets, inside Spark.

A *digest* reads a DataFrame once and shuffles one row a task: the number of rows, and the sums of two 64-bit hashes of
each.  DataFrames with equal digests have the same rows.  Others are compared row by row.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from dovetail.executor.session.pyspark_versions import CalendarIntervalType, VariantType, collation


class Difference(NamedTuple):
    """A row that one side returns ``more`` often than the other, which has none of it; below zero, the right side."""

    row: tuple[object, ...]
    more: int


def digest(frame: DataFrame) -> tuple[int, ...] | None:
    """Return the number of rows and the sums of their hashes; None for types whose hash leaves NULLs out."""
    names = [f"c{n}" for n in range(len(frame.columns))]
    fields = frame.schema.fields
    if any(isinstance(f.dataType, ArrayType | StructType | MapType | VariantType) for f in fields):
        return None
    columns = [distinguishable(fn.col(n), f.dataType) for n, f in zip(names, fields, strict=True)]
    whole = [part for column in columns for part in (column, column.isNull())]
    hashes = frame.toDF(*names).select(*(fn.xxhash64(fn.lit(seed), *whole).alias(f"h{seed}") for seed in (1, 2)))
    halves = [
        half
        for seed in (1, 2)  # about as often below zero as above, so that no sum overflows
        for half in (fn.shiftright(f"h{seed}", 32), fn.col(f"h{seed}").bitwiseAND(0xFFFFFFFF) - 2**31)
    ]
    row = hashes.agg(fn.count("*"), *(fn.coalesce(fn.sum(half), fn.lit(0)) for half in halves)).collect()[0]
    return tuple(map(int, row))


def compare(left: DataFrame, right: DataFrame) -> tuple[int, int, int]:
    """Count, as multisets, the rows of ``left``, those missing in ``right``, and those only in ``right``.

    Both have the same types.
    """
    row = (
        _counted(left, right)
        .agg(
            fn.coalesce(fn.sum("left"), fn.lit(0)),
            fn.coalesce(fn.sum(fn.greatest("more", fn.lit(0))), fn.lit(0)),
            fn.coalesce(fn.sum(fn.greatest(-fn.col("more"), fn.lit(0))), fn.lit(0)),
        )
        .collect()[0]
    )
    return int(row[0]), int(row[1]), int(row[2])


def differences(left: DataFrame, right: DataFrame, most: int) -> list[Difference]:
    """Return the first rows of which one side has more than the other, by their columns in order."""
    *names, more, _ = (counted := _counted(left, right)).columns
    rows = counted.filter("more <> 0").orderBy(*names, more).limit(most).collect()
    return [Difference(tuple(row[:-2]), int(row["more"])) for row in rows]


def _counted(left: DataFrame, right: DataFrame) -> DataFrame:
    """Each different row, as values that GROUP BY distinguishes, with how many ``more`` of it are in ``left``."""
    names = [f"c{n}" for n in range(len(left.columns))]
    sides = []
    for frame, sign in ((left, 1), (right, -1)):
        renamed = frame.toDF(*names)
        keys = [
            distinguishable(fn.col(n), f.dataType).alias(n) for n, f in zip(names, frame.schema.fields, strict=True)
        ]
        sides.append(renamed.select(*keys, fn.lit(sign).alias("sign")))
    return (
        sides[0]
        .unionAll(sides[1])
        .groupBy(*names)
        .agg(fn.sum("sign").alias("more"), fn.sum(fn.when(fn.col("sign") > 0, 1).otherwise(0)).alias("left"))
    )


def distinguishable(column: Column, type_: DataType) -> Column:
    """Convert a value to one that GROUP BY accepts and that is equal only for identical values.

    Spark groups -0.0 with 0.0 and strings that are equal by collation, and rejects maps and variants.  All NaN are one
    value, and the order of a map's entries does not matter.
    """
    if not _hides(type_):
        return column
    match type_:
        case StringType():
            return fn.collate(column, "UTF8_BINARY")
        case ArrayType():
            return fn.transform(column, lambda item: distinguishable(item, type_.elementType))
        case StructType():
            names = [f"c{n}" for n in range(len(type_.fields))]
            renamed = column.cast(StructType([StructField(n, f.dataType) for n, f in zip(names, type_, strict=True)]))
            fields = [distinguishable(renamed[n], f.dataType).alias(n) for n, f in zip(names, type_, strict=True)]
            return fn.when(column.isNotNull(), fn.struct(*fields))
        case MapType():
            return fn.sort_array(
                fn.transform(
                    fn.map_entries(column),
                    lambda entry: fn.struct(
                        distinguishable(entry.getField("key"), type_.keyType).alias("key"),
                        distinguishable(entry.getField("value"), type_.valueType).alias("value"),
                    ),
                )
            )
        case VariantType():
            tagged = fn.struct(fn.schema_of_variant(column).alias("type"), fn.to_json(column).alias("value"))
            return fn.when(column.isNotNull(), tagged)
    return column.cast("string")  # floats, whose strings are exact; intervals


def _hides(type_: DataType) -> bool:
    """Whether GROUP BY merges different values of a type, or rejects the type."""
    match type_:
        case StringType():
            return collation(type_) != "UTF8_BINARY"
        case ArrayType():
            return _hides(type_.elementType)
        case StructType():
            return any(_hides(f.dataType) for f in type_.fields)
    return isinstance(type_, FloatType | DoubleType | MapType | VariantType | CalendarIntervalType)
