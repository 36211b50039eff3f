"""Differences that are the format's or Spark's own, with the reason."""

from __future__ import annotations

KNOWN: dict[str, str] = {
    "TIMESTAMP AS OF a subquery": r"^Spark alone: .*INTERNAL_ERROR",
    "DELETE with EXISTS": r"^Spark alone: .*DELTA_UNSUPPORTED_SUBQUERY",
    "UPDATE with IN": r"^Spark alone: .*DELTA_UNSUPPORTED_SUBQUERY",
}
"""By words of what is tried: a pattern of what is seen."""
NOT_EQUAL: dict[tuple[str, str], str] = {}
"""By format and golden case: why its plan is not that over Parquet."""
