"""Schema helpers: add and drop columns, and analyze a query."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType


def schema_or_error(frame: Callable[[], DataFrame]) -> StructType | PySparkException:
    """Return the schema of the DataFrame that ``frame`` builds, or Spark's analysis error."""
    try:
        return frame().schema
    except PySparkException as error:
        return error


def add_text_column(schema: StructType, name: str) -> StructType:
    """Append a string column to a schema."""
    return StructType([*schema, StructField(name, StringType())])


def select_columns(schema: StructType, names: Container[str]) -> StructType:
    """Keep the columns of a schema whose names are in ``names``, in its order."""
    return StructType([f for f in schema if f.name in names])


def drop_column(schema: StructType, name: str) -> StructType:
    """Drop a column of a schema."""
    return StructType([f for f in schema if f.name != name])


def drop_last_column(schema: StructType) -> StructType:
    """Drop the last column of a schema."""
    return StructType(schema.fields[:-1])


def fields_of(schema: StructType) -> list[Any]:
    """Return the columns with their metadata, but for Spark's own."""
    return [
        (f.name, f.dataType, f.nullable, {k: v for k, v in f.metadata.items() if not k.startswith("__")})
        for f in schema
    ]
