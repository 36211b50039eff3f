"""Reads the definitions of views from Spark's session catalog."""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from dovetail.executor.catalog.connect_views import describe_on_connect, described_columns, find_view_on_connect
from dovetail.executor.session.settings import classic_settings, to_dict
from dovetail.planner.catalog import View
from dovetail.planner.errors import QueryError
from dovetail.planner.types.schema import Column

_OWN = "spark_catalog"
_SETTING = "view.sqlConfig."
_MODE = "view.schemaMode"
_ANALYZED = "view.storingAnalyzedPlan"  # a property of temporary views of DataFrames alone
_FILES = frozenset(f"some({kind})" for kind in ("parquet", "orc", "csv", "json", "text", "avro"))
"""Providers of tables whose schema Spark's catalog stores, as options of Scala."""
_FIXED = ("BINDING", "COMPENSATION")  # views whose columns do not follow their query
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
        self.entries: dict[tuple[str, ...], Any] = {}
        self.described: dict[tuple[str, ...], dict[str, Any]] = {}
        java: Any = getattr(session, "_jsparkSession", None)
        self.state, self.is_classic = None, java is not None
        if java is not None and session.catalog.currentCatalog() == _OWN:
            self.state = java.sessionState()
            self.catalog, self.parser = self.state.catalog(), self.state.sqlParser()

    def find(self, name: tuple[str, ...]) -> View | None:
        """Return the definition of a view; None for other relations."""
        if not self.is_classic:
            return find_view_on_connect(self.session, name, self._described(name))
        found = self.entry(name)
        if found is None or not found.viewText().isDefined() or found.tableType().name() != "VIEW":
            return None
        return _view(found.viewText().get(), to_dict(found.properties()))

    def find_schema(self, name: tuple[str, ...]) -> StructType | None:
        """Return the schema of a relation as Spark's catalog stores it; None if only its analysis has it.

        A view keeps the types of its columns, and a table of files those that it was made with; which of them may be
        NULL only the analysis decides.  Spark stores a temporary view of a DataFrame as an analyzed plan, with its
        schema.
        """
        found = self.entry(name)
        if found is None:
            return None
        if found.tableType().name() == "VIEW":
            facts = to_dict(found.properties())
            if _ANALYZED in facts:
                return _schema(found)
            return _all_nullable(_schema(found)) if facts.get(_MODE, _FIXED[0]) in _FIXED else None
        if found.provider().toString().lower() in _FILES and (schema := _schema(found)).fields:
            return _all_nullable(schema)
        return None

    def find_columns(self, name: tuple[str, ...]) -> tuple[Column, ...] | None:
        """Return the columns of a table of files or of a view on Spark Connect; None if only its analysis has them."""
        if self.is_classic:
            return None
        is_fixed = self._described(name).get("view_schema_mode") in _FIXED
        return described_columns(self._described(name)) if is_fixed or self.is_table(name) else None

    def is_table(self, name: tuple[str, ...]) -> bool:
        """Whether a relation is known to be a table of files, on Spark Connect."""
        return not self.is_classic and f"some({self._described(name).get('provider')})".lower() in _FILES

    def _described(self, name: tuple[str, ...]) -> dict[str, Any]:
        if name not in self.described:
            is_own = len(name) < 3 or (len(name) == 3 and name[0] == _OWN)
            self.described[name] = describe_on_connect(self.session, name) if is_own else {}
        return self.described[name]

    def has_nullability(self, name: tuple[str, ...]) -> bool:
        """Whether the stored schema of a relation says which columns may be NULL: that of a view of SQL does not."""
        found = self.entry(name)
        return found is None or found.tableType().name() != "VIEW" or _ANALYZED in to_dict(found.properties())

    def entry(self, name: tuple[str, ...]) -> Any:
        """The entry of a relation in Spark's own catalog, or None."""
        if name not in self.entries:
            self.entries[name] = self._find_entry(name)
        return self.entries[name]

    def _find_entry(self, name: tuple[str, ...]) -> Any:
        if self.state is None or len(name) > 3 or (len(name) == 3 and name[0] != _OWN):
            return None
        if len(name) == 2 and self.session.conf.get(f"spark.sql.catalog.{name[0]}", None):
            return None
        quoted = ".".join("`" + part.replace("`", "``") + "`" for part in name[-2:])
        try:
            return self.catalog.getTempViewOrPermanentTableMetadata(self.parser.parseTableIdentifier(quoted))
        except (Py4JError, PySparkException):
            return None


def may_be_view(session: SparkSession, name: str) -> bool:
    """Whether a name without quotes may be one of a view: unless a classic session's own catalog has a table of it."""
    state = session._jsparkSession.sessionState()
    try:
        found = state.catalog().getTempViewOrPermanentTableMetadata(state.sqlParser().parseTableIdentifier(name))
        return bool(found.tableType().name() == "VIEW")
    except (Py4JError, PySparkException):
        return True


def _schema(entry: Any) -> StructType:
    return StructType.fromJson(json.loads(entry.schema().json()))


def _all_nullable(schema: StructType) -> StructType:
    return StructType([StructField(f.name, f.dataType, metadata=f.metadata) for f in schema.fields])


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
    if facts.get(_MODE, _FIXED[0]) not in _FIXED:
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
