"""Reads the definitions of views from Spark's session catalog."""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from planner.catalog import View
from planner.errors import QueryError
from planner.runtime.connect_views import find_view_on_connect
from planner.runtime.settings import classic_settings, to_dict

_OWN = "spark_catalog"
_SETTING = "view.sqlConfig."
_ANALYZED = "view.storingAnalyzedPlan"  # a property of temporary views of DataFrames alone
# Settings that Spark does not store with a view, since they do not affect its semantics.
_HARMLESS = (
    "spark.sql.optimizer.",
    "spark.sql.codegen.",
    "spark.sql.execution.",
    "spark.sql.shuffle.",
    "spark.sql.adaptive.",
    "spark.sql.hive.convertMetastore",
    "spark.sql.view.maxNestedViewDepth",
    "spark.sql.maven.additionalRemoteRepositories",
)


class Views:
    """SQL views, temporary and permanent, in Spark's own catalog.

    Every relation of every statement is looked up, and a call into the JVM takes a tenth of a millisecond.
    """

    def __init__(self, session: SparkSession):
        self.session = session
        self._without_text: dict[tuple[str, ...], Any] = {}  # tables, and views of DataFrames
        java: Any = getattr(session, "_jsparkSession", None)
        self.state, self.is_classic = None, java is not None
        if java is not None and session.catalog.currentCatalog() == _OWN:
            self.state = java.sessionState()
            self.catalog, self.parser = self.state.catalog(), self.state.sqlParser()

    def find(self, name: tuple[str, ...]) -> View | None:
        """Return the definition of a view; None for other relations."""
        if len(name) > 3 or (len(name) == 3 and name[0] != _OWN):
            return None
        if not self.is_classic:
            return find_view_on_connect(self.session, name)
        if self.state is None:
            return None
        if len(name) == 2 and self.session.conf.get(f"spark.sql.catalog.{name[0]}", None):
            return None
        quoted = ".".join("`" + part.replace("`", "``") + "`" for part in name[-2:])
        try:
            found = self.catalog.getTempViewOrPermanentTableMetadata(self.parser.parseTableIdentifier(quoted))
            text = found.viewText()
            if not text.isDefined():
                self._without_text[name] = found
                return None
            if found.tableType().name() != "VIEW":
                return None
            sql, facts = text.get(), found.properties()
        except (Py4JError, PySparkException):
            return None
        return _view(sql, to_dict(facts))

    def find_schema(self, name: tuple[str, ...]) -> StructType | None:
        """Return the schema of a temporary view of a DataFrame after ``find``; None for other relations.

        Spark stores such a view as an analyzed plan, with its schema, so it need not be analyzed again.
        """
        found = self._without_text.get(name)
        if found is None or not found.properties().contains(_ANALYZED):
            return None
        return StructType.fromJson(json.loads(found.schema().json()))


def check_view_name(session: SparkSession, name: str) -> None:
    """Raise ``QueryError`` for an invalid name of a temporary view; Spark Connect skips the check."""
    java: Any = getattr(session, "_jsparkSession", None)
    if java is None:
        return
    try:
        parts = java.sessionState().sqlParser().parseMultipartIdentifier(name).size()
    except (Py4JError, PySparkException):
        parts = 0
    if parts != 1:
        raise QueryError(
            f"{name!r} is not a name of a temporary view; give a single-part name, in backquotes if needed"
        )


def changed_setting(session: SparkSession, view: View) -> str | None:
    """Return a setting that has changed or been set since the view was created, or None."""
    kept = dict(view.settings)
    for key, value in kept.items():
        if _now(session, key) != value:
            return key
    for key in classic_settings(session):
        means = key.startswith("spark.sql.") and not key.startswith(_HARMLESS) and key not in kept
        if means and session.conf.isModifiable(key):
            return key
    return None


def legacy_settings(known: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the legacy and ANSI settings among the settings of a session; plans depend on them."""
    return tuple(sorted((k, v) for k, v in known.items() if k.startswith(("spark.sql.legacy.", "spark.sql.ansi."))))


def _now(session: SparkSession, key: str) -> str | None:
    try:
        return session.conf.get(key)
    except (Py4JError, PySparkException):
        return None


def _view(text: str, facts: dict[str, str]) -> View | None:
    """Build a view from its properties; None if its columns follow its query, or for a view of an old Spark."""
    if facts.get("view.schemaMode", "BINDING") not in ("BINDING", "COMPENSATION"):
        return None
    namespace = _numbered(facts, "view.catalogAndNamespace.numParts", "view.catalogAndNamespace.part.")
    columns = _numbered(facts, "view.query.out.numCols", "view.query.out.col.")
    if len(namespace) != 2 or namespace[0] != _OWN or not columns:
        return None
    temporary = json.loads(facts.get("view.referredTempViewNames", "[]"))
    return View(
        text,
        columns,
        namespace,
        tuple(tuple(name) for name in temporary),
        tuple((k.removeprefix(_SETTING), v) for k, v in sorted(facts.items()) if k.startswith(_SETTING)),
    )


def _numbered(facts: dict[str, str], count: str, each: str) -> tuple[str, ...]:
    return tuple(facts[f"{each}{n}"] for n in range(int(facts.get(count, "0"))))
