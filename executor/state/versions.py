"""Expires versions: of those that the watermark has passed, only the newest of each key stays."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from dovetail.planner.expr import quote

_NEWEST = "__dt_newest"


def drop_replaced(rows: DataFrame, key: Sequence[str], position: str, watermark: int) -> DataFrame:
    """Drop the versions that a newer one of their ``key`` has replaced at a watermark, in milliseconds.

    ``position`` is the time of a version in microseconds, as SQL.  Later rows look up versions at times above the
    watermark.  So a version stays if its time is above the watermark, or if it is the newest of the others.  Versions
    of one key and one time stay together.
    """
    reached = f"CASE WHEN {position} <= {watermark * 1000} THEN {position} END"
    newest = F.expr(f"max({reached}) OVER (PARTITION BY {', '.join(map(quote, key))})")
    return rows.withColumn(_NEWEST, newest).where(f"{_NEWEST} IS NULL OR {position} >= {_NEWEST}").drop(_NEWEST)
