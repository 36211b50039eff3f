"""Describes tables: the columns and, for file tables in Spark's own catalog, the folder and options."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from dovetail.planner.errors import OptionError
from dovetail.planner.expr import quote

RAW_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
FILE_FORMATS = frozenset({"parquet", "orc", "json", "csv", "text", "avro", "xml"})
_SPARKS = "spark_catalog"


@dataclass(frozen=True)
class Table:
    """A table: its full ``name``, and its columns.

    A table in Spark's own catalog has a ``provider`` such as ``csv``, a ``folder`` for its files, and ``options`` for
    reading and writing them.
    """

    name: str
    columns: tuple[StructField, ...]
    provider: str = ""
    folder: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    bucketed: bool = False

    @property
    def partitioned(self) -> bool:
        """Whether the table has PARTITIONED BY."""
        return bool(self.partitions)

    @property
    def char_column(self) -> str | None:
        """The first CHAR or VARCHAR column, which files alone do not pad or limit; None if there is none."""
        return next((f.name for f in self.columns if RAW_TYPE in f.metadata), None)


def find_table(session: SparkSession, name: str) -> Table | None:
    """Return a table that is not a temporary view, or None.  Reads no file."""
    try:
        found = session.catalog.getTable(name)
    except PySparkException:
        return None
    if found.tableType == "TEMPORARY" or found.isTemporary:
        return None
    parts = [*(found.namespace or ()), found.name]
    full = ".".join(quote(part) for part in (*([found.catalog] if found.catalog else ()), *parts))
    if found.catalog not in (None, _SPARKS) or len(parts) > 2:
        return Table(full, tuple(session.table(full).schema))
    meta = metadata(session, found.namespace, found.name)
    columns = StructType.fromJson(json.loads(meta.schema().asNullable().json())).fields
    jvm: Any = session._jvm
    options = dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(meta.storage().properties()))
    where = meta.storage().locationUri()
    return Table(
        full,
        tuple(columns),
        str(meta.provider().get()).lower() if meta.provider().isDefined() else "",
        jvm.org.apache.hadoop.fs.Path(where.get()).toString() if where.isDefined() else None,
        {key: str(value) for key, value in options.items() if key.lower() not in ("path", "serialization.format")},
        partitions=tuple(jvm.scala.jdk.javaapi.CollectionConverters.asJava(meta.partitionColumnNames())),
        bucketed=bool(meta.bucketSpec().isDefined()),
    )


def wrong_columns(name: str, existing: Iterable[StructField], returned: Iterable[StructField]) -> OptionError:
    """The error for a table whose columns are not those of a query that writes to it."""
    has, returns = (
        ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in columns) for columns in (existing, returned)
    )
    return OptionError(
        f"The table {name} has the columns {has}, and the query returns {returns}; create a table with these columns, "
        "or name another"
    )


def qualified_name(session: SparkSession, name: str) -> str:
    """Qualify a table name, which need not exist, with its catalog and database.  Raises Spark's errors."""
    spark: Any = session._jsparkSession
    jvm: Any = session._jvm
    parts = spark.sessionState().sqlParser().parseMultipartIdentifier(name)
    known = [*jvm.scala.jdk.javaapi.CollectionConverters.asJava(parts)]
    before = [session.catalog.currentCatalog(), session.catalog.currentDatabase()][: max(0, 3 - len(known))]
    return ".".join(quote(part) for part in (*before, *known) if part)  # no database at the root of another catalog


def refresh_table(session: SparkSession, table: str, folder: str) -> None:
    """Refresh a table whose files have changed, as an INSERT does.

    Spark lists the files in ``folder`` again, recomputes cached data, and discards old sizes and row counts.
    """
    session.catalog.refreshTable(table)
    session.catalog.refreshByPath(folder)  # data of CACHE TABLE, which refreshTable does not refresh
    found = session.catalog.getTable(table)
    if found.catalog == _SPARKS:
        jvm: Any = session._jvm
        commands: Any = jvm.org.apache.spark.sql.execution.command.CommandUtils
        commands.updateTableStats(session._jsparkSession, metadata(session, found.namespace, found.name))


def metadata(session: SparkSession, namespace: list[str] | None, name: str) -> Any:
    """Return a table's metadata in Spark's own catalog."""
    spark: Any = session._jsparkSession
    state = spark.sessionState()
    parts = ".".join(f"`{part.replace('`', '``')}`" for part in (*(namespace or ()), name))
    return state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(parts))
