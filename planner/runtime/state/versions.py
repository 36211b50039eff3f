"""Versions that are kept: of those whose time the watermark has reached, the newest of each key."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from planner.expr import quote

_NEWEST = "__dt_newest"


def not_replaced(rows: DataFrame, key: Sequence[str], position: str, watermark: int) -> DataFrame:
    """Versions without those that a newer one of their ``key`` has replaced at a watermark, in milliseconds.

    ``position`` is the time of a version in microseconds, as SQL.  Whatever asks for a version later asks for a time
    above the watermark: so one stays if its own time is above it, or if it is the newest of those that are not.
    Versions of one key and one time stay together.
    """
    reached = f"CASE WHEN {position} <= {watermark * 1000} THEN {position} END"
    newest = F.expr(f"max({reached}) OVER (PARTITION BY {', '.join(map(quote, key))})")
    return rows.withColumn(_NEWEST, newest).where(f"{_NEWEST} IS NULL OR {position} >= {_NEWEST}").drop(_NEWEST)
