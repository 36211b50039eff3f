"""Compare two DataFrames as multisets, to the bit, inside Spark."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)


def compare(left: DataFrame, right: DataFrame) -> tuple[int, int, int]:
    """Rows of ``left``; how many of them ``right`` lacks; how many ``right`` has beyond them; by multiplicity.

    Both have the same types.
    """
    names = [f"c{n}" for n in range(len(left.columns))]
    sides = []
    for frame, sign in ((left, 1), (right, -1)):
        renamed = frame.toDF(*names)
        keys = [told_apart(fn.col(n), f.dataType).alias(n) for n, f in zip(names, frame.schema.fields, strict=True)]
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


def told_apart(column: Column, type_: DataType) -> Column:
    """A value that GROUP BY takes, and that is equal for equal values only.

    Spark groups -0.0 with 0.0, and texts that their collation takes for equal; maps and variants not at all.  All NaN
    are one value, and a map is one in whatever order its entries are.
    """
    if not _hides(type_):
        return column
    match type_:
        case StringType():
            return fn.collate(column, "UTF8_BINARY")
        case ArrayType():
            return fn.transform(column, lambda item: told_apart(item, type_.elementType))
        case StructType():
            names = [f"c{n}" for n in range(len(type_.fields))]
            renamed = column.cast(StructType([StructField(n, f.dataType) for n, f in zip(names, type_, strict=True)]))
            fields = [told_apart(renamed[n], f.dataType).alias(n) for n, f in zip(names, type_, strict=True)]
            return fn.when(column.isNotNull(), fn.struct(*fields))
        case MapType():
            return fn.sort_array(
                fn.transform(
                    fn.map_entries(column),
                    lambda entry: fn.struct(
                        told_apart(entry.getField("key"), type_.keyType).alias("key"),
                        told_apart(entry.getField("value"), type_.valueType).alias("value"),
                    ),
                )
            )
        case VariantType():
            said = fn.struct(fn.schema_of_variant(column).alias("type"), fn.to_json(column).alias("value"))
            return fn.when(column.isNotNull(), said)
    return column.cast("string")  # floats, which it writes so that they read back; intervals


def _hides(type_: DataType) -> bool:
    """Whether values of a type can be grouped with others, or not at all."""
    match type_:
        case StringType():
            return type_.collation != "UTF8_BINARY"
        case ArrayType():
            return _hides(type_.elementType)
        case StructType():
            return any(_hides(f.dataType) for f in type_.fields)
    return isinstance(type_, FloatType | DoubleType | MapType | VariantType | CalendarIntervalType)
