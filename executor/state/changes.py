"""Adds up the changes of changelogs: inserts and deletes of equal rows cancel."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StringType, StructType

from dovetail.planner.expr import quote
from dovetail.planner.state.changes import ADDS, COUNT, TAKES, count_of

_BINARY = "UTF8_BINARY"


def to_changes(rows: DataFrame, change: str) -> DataFrame:
    """Convert rows with counts in their last column, ``COUNT``, to changes: each row as often as its counts add up to.

    The column ``change`` with the kind, ``insert`` or ``delete``, replaces the counts.
    """
    plain = [f"c{n}" for n in range(len(rows.columns) - 1)]
    added = _net(rows.toDF(*plain, COUNT), plain, F.col(COUNT))
    return added.select(*plain, _kinds(change)).toDF(*rows.columns[:-1], change)


def add_count(rows: DataFrame, count: int) -> DataFrame:
    """Append a column ``COUNT`` with one count for all rows."""
    return rows.withColumn(COUNT, F.lit(count))


def net_changes(rows: DataFrame, change: str) -> DataFrame:
    """Reduce changes to the fewest with the same sum; ``change`` is the column with their kind."""
    others = [quote(name) for name in rows.columns if name != change]
    kinds = _net(rows, others, F.expr(count_of(change))).select(*others, _kinds(change))
    return kinds.select(*map(quote, rows.columns))


def current_rows(rows: DataFrame, change: str) -> DataFrame:
    """Return the rows after all changes, without the column with the kind of change."""
    others = [quote(name) for name in rows.columns if name != change]
    kinds = _net(rows, others, F.expr(count_of(change))).where(f"{COUNT} > 0").select(*others, _kinds(change))
    return kinds.drop(change)


def excess_deletes(rows: DataFrame, change: str) -> DataFrame:
    """Return the rows that were deleted more often than inserted; ``COUNT`` has the difference, below 0."""
    others = [quote(name) for name in rows.columns if name != change]
    return _net(rows, others, F.expr(count_of(change))).where(f"{COUNT} < 0")


def first_duplicate_key(rows: DataFrame, new: DataFrame, key: Sequence[str]) -> tuple[object, ...] | None:
    """Return the key of a ``new`` row that several of all ``rows`` have; None if all keys are unique.

    Rows are counted by ``COUNT`` if they have this column.
    """
    counts = COUNT in rows.columns
    columns = [quote(name) for name in key]
    new_keys = (new.where(f"{COUNT} > 0") if counts else new).select(*columns).distinct()
    found = rows.join(new_keys, list(key), "left_semi").groupBy(*columns)
    total = found.agg((F.sum(COUNT) if counts else F.count("*")).alias(COUNT))
    twice = total.where(f"{COUNT} > 1").select(*columns).head()
    return None if twice is None else tuple(twice)


def nonadditive_reason(schema: StructType) -> str:
    """Return why rows cannot be added up: a column in which equal values may differ; empty if there is none."""
    for field in schema:
        if isinstance(field.dataType, StringType) and getattr(field.dataType, "collation", _BINARY) != _BINARY:
            return f"texts of {field.name} that are equal may differ, by its collation"
    return ""


def _net(rows: DataFrame, columns: list[str], count: Column) -> DataFrame:
    return rows.groupBy(*columns).agg(F.sum(count).alias(COUNT)).where(f"{COUNT} <> 0")


def _kinds(change: str) -> Column:
    kind = f"IF({COUNT} > 0, '{ADDS[0]}', '{TAKES[0]}')"
    return F.expr(f"explode(array_repeat({kind}, CAST(abs({COUNT}) AS INT)))").alias(change)
