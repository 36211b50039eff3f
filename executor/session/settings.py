"""All settings of a session at once: PySpark's own way takes four milliseconds for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from dovetail.executor.session.batch import classic
from dovetail.executor.session.sail import note_application
from dovetail.planner.catalog.settings import NameCase

_MARK = "\u0001"  # between the entries of a map
# The defaults of these hang on the version of Spark, on the environment of its JVM, and on its machine.
_VARYING = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
_defaults: WeakKeyDictionary[Any, dict[str, str | None]] = WeakKeyDictionary()  # of sessions of Spark Connect


class SessionSettings:
    """The settings that planning a statement reads, all at once and when the first is needed.

    On Spark Connect that is one request, and another one for the first statement of a session.  No setting but the
    two above is requested by its name, which serverless offers answer with an error.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    @cached_property
    def values(self) -> dict[str, str]:
        """The settings that are set, and those whose defaults vary, by name."""
        found = all_settings(self._session)
        if "spark.app.id" in found and not classic(self._session):
            note_application(self._session)
        return found | _find_defaults(self._session, [name for name in _VARYING if name not in found])

    @property
    def has_spark_catalog(self) -> bool:
        """Whether no other catalog replaces Spark's own."""
        return "spark.sql.catalog.spark_catalog" not in self.values


def _find_defaults(session: SparkSession, names: list[str]) -> dict[str, str]:
    """The values of settings that are not set; on Spark Connect they stay the same while a session lives."""
    known = {} if classic(session) else _defaults.setdefault(session, {})
    if new := [name for name in names if name not in known]:
        values = map(session.conf.get, new) if classic(session) else session.client.get_configs(*new)
        known.update(zip(new, values, strict=True))
    return {name: value for name in names if (value := known[name])}


def all_settings(session: SparkSession) -> dict[str, str]:
    """Return the settings of a session, classic or Connect, by name."""
    return dict(session.conf.getAll) if getattr(session, "_jsparkSession", None) is None else classic_settings(session)


def name_case(settings: Mapping[str, str]) -> NameCase:
    """Return how a session with these settings compares names."""
    return NameCase(settings.get("spark.sql.caseSensitive", "").lower() == "true")


def classic_settings(session: SparkSession) -> dict[str, str]:
    """Return the settings of a classic session; nothing on Spark Connect."""
    java: Any = getattr(session, "_jsparkSession", None)
    return {} if java is None else to_dict(java.sessionState().conf().getAllConfs())


def to_dict(scala_map: Any) -> dict[str, str]:
    """Convert a Scala map of texts with one call."""
    pairs = (entry.partition(" -> ") for entry in scala_map.mkString(_MARK).split(_MARK))
    return {key: value for key, arrow, value in pairs if arrow}
