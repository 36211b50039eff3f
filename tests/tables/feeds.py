"""Change feeds of tables of a format, as tables and as changelogs: rows compared with the batch over the tables."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from dovetail import Optimizer, Sink
from fill import full_name
from format_sessions import DELTA, ICEBERG
from outcomes import BAND, REWRITTEN, first_line, outcome, rows

KIND = "_change_type"
FEEDS = {"p": "p_feed", "i": "i_feed"}
PAIRS = f"SELECT p.id, p.v, i.id AS i FROM {{0}} p JOIN {{1}} i ON p.k = i.k AND {BAND}"
OF_TABLES, OF_FEEDS = PAIRS.format("p", "i"), PAIRS.format(*FEEDS.values())
MERGE = (
    "MERGE INTO i t USING (SELECT id * 2 AS id, 7 AS lo, 60 AS hi, 1 AS k, 2 AS day FROM range(30)) s "
    "ON t.id = s.id WHEN MATCHED AND t.id % 4 = 0 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET lo = s.lo, hi = s.hi WHEN NOT MATCHED THEN INSERT *"
)
CHANGES: dict[str, tuple[str, ...]] = {
    "the first rows": (),
    "INSERT, UPDATE, DELETE": (
        "INSERT INTO p SELECT 1000 + id, x, k, v, day FROM p WHERE id < 20",
        "UPDATE p SET x = x + 1 WHERE id % 3 = 0",
        "DELETE FROM i WHERE id % 4 = 1",
    ),
    "MERGE": (MERGE,),
}


def feeds(opt: Optimizer, form: str) -> Iterator[tuple[str, str]]:
    """Join the change feeds of two tables that change, as a materialized view and as a stream."""
    session = opt.session
    for name in FEEDS:
        _record_changes(session, form, name)
    session.sql("UPDATE p SET x = x + 2 WHERE id % 5 = 0")
    yield "changes of a table in a band", outcome(opt, _band_of_changes(session, form))
    for name, feed in FEEDS.items():
        if form == DELTA:
            stream = session.readStream.option("readChangeFeed", "true").table(name)
        else:
            changes = f"{name}_changes"
            session.sql(
                f"CREATE TABLE {changes} USING {form} AS SELECT *, '' AS {KIND}, 0L AS snapshot FROM {name} LIMIT 0"
            )
            stream = session.readStream.table(changes)
        stream.drop("_commit_version", "_commit_timestamp", "snapshot").createOrReplaceTempView(feed)
        opt.declare_changelog(feed, KIND)
    with tempfile.TemporaryDirectory() as folder:
        for what, statements in CHANGES.items():
            for statement in statements:
                session.sql(statement)
            for name in FEEDS:
                if form == ICEBERG:
                    _copy_changes(session, name)
            yield f"change feeds as changelogs, a materialized view, {what}", _view(opt, Path(folder) / "view")
            yield f"change feeds as changelogs, a stream, {what}", _stream(opt, Path(folder) / "stream")


def _record_changes(session: SparkSession, form: str, name: str) -> None:
    """Make a table anew, so that the format can show its changes: Iceberg those of files without deletes."""
    properties = "'delta.enableChangeDataFeed' = 'true'" if form == DELTA else "'format-version' = '2'"
    source = session.table(name).collect()
    schema = session.table(name).schema
    session.sql(f"DROP TABLE {name}")
    session.createDataFrame(source, schema).createOrReplaceTempView("source")
    session.sql(f"CREATE TABLE {name} USING {form} TBLPROPERTIES ({properties}) AS SELECT * FROM source")


def _band_of_changes(session: SparkSession, form: str) -> str:
    if form == DELTA:
        return f"SELECT p.id, p.{KIND}, i.id AS i FROM table_changes('p', 0) p JOIN i ON {BAND}"
    _create_changelog_view(session, "p", "changes_of_p")
    return f"SELECT p.id, p.{KIND}, i.id AS i FROM changes_of_p p JOIN i ON {BAND}"


def _create_changelog_view(session: SparkSession, name: str, view: str, after: int | None = None) -> None:
    start = f", options => map('start-snapshot-id', '{after}')" if after else ""
    catalog, table = full_name(session, name).split(".", 1)
    session.sql(f"CALL {catalog}.system.create_changelog_view(table => '{table}', changelog_view => '{view}'{start})")


def _copy_changes(session: SparkSession, name: str) -> None:
    """Copy changes of an Iceberg table to one that grows, as docs/changelogs.md does: streams have new rows only."""
    last = "max_by(snapshot_id, committed_at)"
    snapshots = session.table(f"{full_name(session, name)}.snapshots")
    now = snapshots.selectExpr(last).collect()[0][0]
    copied = snapshots.where(f"snapshot_id IN (SELECT snapshot FROM {name}_changes)").selectExpr(last).collect()[0][0]
    if now == copied:
        return
    _create_changelog_view(session, name, "changes", copied)
    columns = ", ".join(session.table(name).columns)
    session.sql(f"INSERT INTO {name}_changes SELECT {columns}, lower({KIND}), _commit_snapshot_id FROM changes")


def _view(opt: Optimizer, folder: Path) -> str:
    try:
        view = opt.materialize(OF_FEEDS, "pairs_of_changes", state=folder)
        view.refresh()
        return _compare(opt, rows(view.table()))
    except Exception as error:  # noqa: BLE001 - of Spark, or of the format in the JVM
        return first_line(error)


def _stream(opt: Optimizer, folder: Path) -> str:
    try:
        sink = Sink("parquet", folder / "out")
        query = opt.stream(OF_FEEDS, checkpoint=folder / "checkpoint", sink=sink, trigger="available now")
        query.awaitTermination()
        changes = opt.session.read.parquet(str(folder / "out"))
        found = rows(changes.where(f"{KIND} = 'insert'").drop(KIND))
        found.subtract(rows(changes.where(f"{KIND} = 'delete'").drop(KIND)))
        return _compare(opt, found)
    except Exception as error:  # noqa: BLE001
        return first_line(error)


def _compare(opt: Optimizer, found: Counter[str]) -> str:
    wanted = rows(opt.session.sql(OF_TABLES))
    if not wanted:
        return "no rows to compare"
    return REWRITTEN if +found == wanted and min(found.values()) >= 0 else f"other rows: {len(found - wanted)} too many"
