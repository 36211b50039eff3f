"""Names of the newest PySpark that older ones, from 3.5 on, do not have, or have otherwise."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyspark.sql.types
import pyspark.util
from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import DataType, StringType, StructType

if TYPE_CHECKING:
    import pyarrow as pa


class _NoType(DataType):
    """A type that no column has, in place of one that this PySpark does not have."""


VariantType: Any = getattr(pyspark.sql.types, "VariantType", _NoType)
CalendarIntervalType: Any = getattr(pyspark.sql.types, "CalendarIntervalType", _NoType)


def is_at_least(version: str, *least: int) -> bool:
    """Whether a version of Spark, as ``4.3.0`` or ``4.3.0-SNAPSHOT``, is not before another one."""
    return tuple(map(int, re.findall(r"\d+", version)[: len(least)])) >= least


def pyspark_logger(name: str) -> logging.Logger:
    """Return the logger that PySpark 4 prints errors with; of PySpark 3.5, which prints none, an ordinary logger."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:
        return logging.getLogger(name)
    return PySparkLogger.getLogger(name)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema as Arrow's, with timestamps in UTC: the only zone before PySpark 4.2."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def try_cast(column: Column, text: str, type_: DataType) -> Column:
    """Return TRY_CAST of a column, which ``text`` names in the statement of its frame."""
    if hasattr(Column, "try_cast"):
        return column.try_cast(type_)
    return fn.expr(f"TRY_CAST({text} AS {type_.simpleString()})")


def collation(type_: StringType) -> str:
    """Return the collation of a string type; PySpark 3.5 has the one of UTF-8 only."""
    return str(getattr(type_, "collation", "UTF8_BINARY"))


def thread_target(session: SparkSession, call: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function for another thread, which inherits the caller's properties and, from PySpark 4 on, tags."""
    try:
        wrapped: Callable[[], Any] = pyspark.util.inheritable_thread_target(session)(call)
    except TypeError:
        wrapped = pyspark.util.inheritable_thread_target(call)
    return wrapped


def dataset_class(session: SparkSession) -> Any:
    """Return the class of the JVM that makes DataFrames of plans; PySpark 3.5 has it in another package."""
    found = jvm_class(session._jvm, "org.apache.spark.sql.classic.Dataset")
    return found if isinstance(found, JavaClass) else jvm_class(session._jvm, "org.apache.spark.sql.Dataset")


@lru_cache(maxsize=16)
def jvm_class(jvm: Any, name: str) -> Any:
    """Return a class of the JVM, looked up once; a package if there is no such class."""
    return getattr(jvm, name)
