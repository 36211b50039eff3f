"""The tables that the programs of this folder try things on: points and intervals by days, in one format."""

from __future__ import annotations

from pyspark.sql import SparkSession

from format_sessions import DELTA, ICEBERG

POINTS = "id, CAST(id * 7 % 100 AS INT) AS x, CAST(id % 5 AS INT) AS k, id % 3 AS v, CAST(id % 4 AS INT) AS day"
INTERVALS = (
    "id, CAST(id * 2 AS INT) AS lo, CAST(id * 2 + 3 AS INT) AS hi, CAST(id % 5 AS INT) AS k, CAST(id % 4 AS INT) AS day"
)
_PROPERTIES = {
    DELTA: "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    ICEBERG: "TBLPROPERTIES ('format-version' = '{iceberg_format}', 'write.delete.mode' = 'merge-on-read', "
    "'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')",
}


def fill(session: SparkSession, form: str, database: str, *, iceberg_format: int = 3) -> None:
    """Make the tables ``p`` and ``i`` of a database, and take that database.

    Iceberg deletes rows by deletion vectors in format 3, by files of positions in format 2.
    """
    properties = _PROPERTIES.get(form, "").format(iceberg_format=iceberg_format)
    session.sql(f"CREATE DATABASE IF NOT EXISTS {database}")
    session.sql(f"USE {database}")
    for name, columns, count in (("p", POINTS, 300), ("i", INTERVALS, 50)):
        session.sql(f"DROP TABLE IF EXISTS {name}")
        session.sql(
            f"CREATE TABLE {name} USING {form} PARTITIONED BY (day) {properties} "
            f"AS SELECT {columns} FROM range({count})"
        )


def versions(session: SparkSession, form: str, table: str) -> list[tuple[int, str]]:
    """The versions of a table, the first one first, each with its time."""
    if form == DELTA:
        found = session.sql(f"DESCRIBE HISTORY {table}").select("version", "timestamp")
    else:
        found = session.sql(f"SELECT snapshot_id, committed_at FROM {full_name(session, table)}.snapshots")
    return sorted(((int(row[0]), str(row[1])) for row in found.collect()), key=lambda row: row[1])


def full_name(session: SparkSession, table: str) -> str:
    """The name of a table of the current database, behind which a metadata table may stand."""
    return f"{session.catalog.currentCatalog()}.{session.catalog.currentDatabase()}.{table}"
