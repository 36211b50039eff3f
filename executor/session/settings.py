"""All settings of a session at once: PySpark's own way takes four milliseconds for each of them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

_MARK = "\u0001"  # between the entries of a map


def all_settings(session: SparkSession) -> dict[str, str]:
    """Return the settings of a session, classic or Connect, by name."""
    return dict(session.conf.getAll) if getattr(session, "_jsparkSession", None) is None else classic_settings(session)


def classic_settings(session: SparkSession) -> dict[str, str]:
    """Return the settings of a classic session; nothing on Spark Connect."""
    java: Any = getattr(session, "_jsparkSession", None)
    return {} if java is None else to_dict(java.sessionState().conf().getAllConfs())


def to_dict(scala_map: Any) -> dict[str, str]:
    """Convert a Scala map of texts with one call."""
    pairs = (entry.partition(" -> ") for entry in scala_map.mkString(_MARK).split(_MARK))
    return {key: value for key, arrow, value in pairs if arrow}
