"""Rows with intervals as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from decimal import Decimal
from math import isfinite
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    StructField,
    StructType,
    TimestampType,
)


def is_number(type_: DataType) -> bool:
    """Whether a column of this type can be estimated."""
    return isinstance(type_, IntegralType | DecimalType | DoubleType | FloatType)


def estimated_frame(
    session: SparkSession,
    schema: StructType,
    aggregates: Sequence[int],
    rows: Sequence[tuple[Sequence[Any], int | None, bool]],
) -> DataFrame:
    """A DataFrame with the columns of ``schema``, bounds behind those of ``aggregates``, and two columns at the end.

    A row: its values, of which those of aggregates are (estimate, low, high, …) or None; its sampled rows; whether it
    is certified.
    """
    fields: list[StructField] = []
    for n, one in enumerate(schema):
        fields.append(StructField(one.name, one.dataType, True))
        if n in aggregates:
            fields += [StructField(f"{one.name}_{end}", DoubleType(), True) for end in ("low", "high")]
    fields += [StructField("sampled_rows", LongType(), True), StructField("certified", BooleanType(), False)]
    found = []
    for values, sampled, certified in rows:
        row: list[Any] = []
        for n, (value, one) in enumerate(zip(values, schema, strict=True)):
            if n not in aggregates:
                row.append(_with_time_zone(value, one.dataType))
            elif value is None:
                row += [None, None, None]
            else:
                estimate, low, high = value[:3]
                row += [_typed(estimate, one.dataType), float(low), float(high)]
        found.append((*row, sampled, certified))
    return session.createDataFrame(found, StructType(fields))


def _typed(estimate: Any, type_: DataType) -> Any:
    """An estimate in the type of its column; NULL if that cannot hold it."""
    if not isinstance(estimate, float) or isinstance(type_, DoubleType | FloatType):
        return estimate
    if not isfinite(estimate):
        return None
    if isinstance(type_, DecimalType):
        found = Decimal(f"{estimate:.{type_.scale}f}")
        return found if abs(found) < 10 ** (type_.precision - type_.scale) else None
    whole = round(estimate)
    return whole if -(2**63) <= whole < 2**63 else None


def _with_time_zone(value: Any, type_: DataType) -> Any:
    """A value; a timestamp with its time zone, since local times repeat when daylight saving time ends."""
    if isinstance(value, datetime) and isinstance(type_, TimestampType):
        return value.astimezone(timezone.utc)
    return value
