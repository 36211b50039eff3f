"""Changes that add up: rows that come and go as often leave nothing."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StringType, StructType

from planner.expr import quote
from planner.state.changes import ADDS, COUNT, TAKES, count_of

_BINARY = "UTF8_BINARY"


def as_changes(rows: DataFrame, change: str) -> DataFrame:
    """Rows with counts, in their last column ``COUNT``, as changes: each row as often as its counts add up to.

    ``change`` is the column with the kind, ``insert`` or ``delete``, in the place of the counts.
    """
    plain = [f"c{n}" for n in range(len(rows.columns) - 1)]
    added = _net(rows.toDF(*plain, COUNT), plain, F.col(COUNT))
    return added.select(*plain, _kinds(change)).toDF(*rows.columns[:-1], change)


def netted(rows: DataFrame, change: str) -> DataFrame:
    """Changes, of the kind in a column, that add up to the same, as few as there can be."""
    others = [quote(name) for name in rows.columns if name != change]
    kinds = _net(rows, others, F.expr(count_of(change))).select(*others, _kinds(change))
    return kinds.select(*map(quote, rows.columns))


def current(rows: DataFrame, change: str) -> DataFrame:
    """The rows that are there after all changes, without the column with their kind."""
    others = [quote(name) for name in rows.columns if name != change]
    kinds = _net(rows, others, F.expr(count_of(change))).where(f"{COUNT} > 0").select(*others, _kinds(change))
    return kinds.drop(change)


def gone_too_often(rows: DataFrame, change: str) -> DataFrame:
    """The rows that have been taken away more often than added, with how often, below 0, in ``COUNT``."""
    others = [quote(name) for name in rows.columns if name != change]
    return _net(rows, others, F.expr(count_of(change))).where(f"{COUNT} < 0")


def first_of_two(rows: DataFrame, new: DataFrame, key: Sequence[str]) -> tuple[object, ...] | None:
    """The key of some ``new`` row that more than one of all ``rows`` has; None where there is none.

    Rows count in ``COUNT`` where they have it.
    """
    counts = COUNT in rows.columns
    own = [quote(name) for name in key]
    asked = (new.where(f"{COUNT} > 0") if counts else new).select(*own).distinct()
    found = rows.join(asked, list(key), "left_semi").groupBy(*own)
    total = found.agg((F.sum(COUNT) if counts else F.count("*")).alias(COUNT))
    twice = total.where(f"{COUNT} > 1").select(*own).head()
    return None if twice is None else tuple(twice)


def why_not_added_up(schema: StructType) -> str:
    """The column of rows whose equal values differ, so that they cannot be added up; nothing where there is none."""
    for field in schema:
        if isinstance(field.dataType, StringType) and getattr(field.dataType, "collation", _BINARY) != _BINARY:
            return f"texts of {field.name} that are equal may differ, by its collation"
    return ""


def _net(rows: DataFrame, columns: list[str], count: Column) -> DataFrame:
    return rows.groupBy(*columns).agg(F.sum(count).alias(COUNT)).where(f"{COUNT} <> 0")


def _kinds(change: str) -> Column:
    kind = f"IF({COUNT} > 0, '{ADDS[0]}', '{TAKES[0]}')"
    return F.expr(f"explode(array_repeat({kind}, CAST(abs({COUNT}) AS INT)))").alias(change)
