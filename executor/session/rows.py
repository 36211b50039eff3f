"""Converts result rows to plain JSON values inside Spark.

Python has no dates after 9999 or before 1, no month intervals and no variants, so collecting such rows fails.  Spark
itself therefore writes each row as JSON, and values without a JSON form as Spark's string cast.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructType,
)

from dovetail.executor.session.pyspark_versions import VariantType

_JSON_TYPES = (BinaryType, BooleanType, DoubleType, FloatType, IntegralType, StringType)  # bytes become base64
_SPATIAL = ("geometry", "geography")


def take_rows(frame: DataFrame, limit: int) -> list[list[Any]]:
    """Return at most ``limit`` rows, each as a list of plain values."""
    return [_values(frame, row[0]) for row in _as_json(frame).take(limit)] if frame.columns else []


def each_row(frame: DataFrame) -> Iterator[list[Any]]:
    """Yield all rows, each as a list of plain values, partition by partition."""
    if frame.columns:
        for row in _as_json(frame).toLocalIterator():
            yield _values(frame, row[0])


def _as_json(frame: DataFrame) -> DataFrame:
    """Convert each row to one JSON column; the columns are numbered, since names may repeat."""
    names = [f"c{n}" for n in range(len(frame.columns))]
    plain = [_to_json_type(fn.col(n), f.dataType).alias(n) for n, f in zip(names, frame.schema.fields, strict=True)]
    return frame.toDF(*names).select(fn.to_json(fn.struct(*plain), {"ignoreNullFields": "false"}))


def _to_json_type(value: Column, type_: DataType) -> Column:
    """Convert a value to a JSON type: unchanged, a list or struct of JSON types, or its string."""
    match type_:
        case ArrayType():
            return fn.transform(value, lambda one: _to_json_type(one, type_.elementType))
        case MapType():  # as a list of entries: JSON keys are strings
            entries = fn.map_entries(value)
            return fn.transform(
                entries,
                lambda one: fn.struct(
                    one.getField("key").cast("string").alias("key"),
                    _to_json_type(one.getField("value"), type_.valueType).alias("value"),
                ),
            )
        case StructType() if _has_distinct_names(type_.names):
            fields = [
                _to_json_type(value.getField(f.name), f.dataType).alias(f"c{n}") for n, f in enumerate(type_.fields)
            ]
            return fn.when(value.isNotNull(), fn.struct(*fields))
        case VariantType():
            return fn.to_json(value)
        case _ if isinstance(type_, _JSON_TYPES):
            return value
        case _ if type_.simpleString().split("(")[0] in _SPATIAL:
            return fn.st_asbinary(value)
    return value.cast("string")


def _has_distinct_names(names: list[str]) -> bool:
    """Whether a struct has fields, and their names are distinct regardless of case."""
    return 0 < len(names) == len({name.lower() for name in names})


def _values(frame: DataFrame, text: str) -> list[Any]:
    fields = frame.schema.fields
    return [_restore_names(value, f.dataType) for value, f in zip(json.loads(text).values(), fields, strict=True)]


def _restore_names(value: Any, type_: DataType) -> Any:
    """Restore the names of maps and structs in a JSON value; of duplicate names the last one wins."""
    if value is None:
        return None
    match type_:
        case ArrayType():
            return [_restore_names(one, type_.elementType) for one in value]
        case MapType():
            return {one["key"]: _restore_names(one["value"], type_.valueType) for one in value}
        case StructType() if _has_distinct_names(type_.names):
            return {f.name: _restore_names(v, f.dataType) for f, v in zip(type_.fields, value.values(), strict=True)}
    return value
