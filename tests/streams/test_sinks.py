"""Tables and memory as sinks: what plain Spark reads is what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer, OptionError, Sink, StateError
from dovetail.executor.state.sinks import sink_identity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

JOIN = "SELECT a.*, b.w FROM s a JOIN t b ON a.id = b.id"


class Rows:
    """Streams ``s`` of given rows and ``t`` of their ids; each call adds a file to both."""

    def __init__(self, session: SparkSession, folder: Path, rows: str):
        self.session, self.folder, self.rows = session, folder, rows

    def add(self, which: str = "true") -> None:
        session = self.session
        rows = session.sql(self.rows).where(which)
        ids = rows.selectExpr("id", "concat('w', id) AS w")
        for name, frame in (("s", rows), ("t", ids)):
            frame.coalesce(1).write.mode("append").parquet(str(self.folder / name))
            stream = session.readStream.schema(frame.schema).parquet(str(self.folder / name))
            stream.createOrReplaceTempView(name)


@pytest.fixture
def dropped(opt: Optimizer) -> Iterator[None]:
    yield
    opt.session.sql("DROP TABLE IF EXISTS sink_table")


def stream(opt: Optimizer, folder: Path, sink: Any, query: str = JOIN, **more: Any) -> None:
    more = {"trigger": "available now", "checkpoint": folder / "checkpoint", "state_modules": True, **more}
    opt.stream(query, sink=sink, **more).awaitTermination()


def texts(rows: DataFrame) -> list[str]:
    """Rows as Spark shows them, so that no value passes Python."""
    return sorted(row[0] for row in rows.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false'))").collect())


TABLES = {
    "csv": "(id INT, p STRING, w STRING) USING CSV OPTIONS (header 'true', sep ';', nullValue 'n', compression 'gzip')",
    "case": "(ID INT, P STRING, W STRING) USING json",
    "orc": "(id INT, p STRING, w STRING) USING orc TBLPROPERTIES ('k' = 'v')",
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.usefixtures("dropped")
def test_a_table_has_its_options_and_its_new_rows_at_once(opt: Optimizer, tmp_path: Path, table: str) -> None:
    opt.session.sql(f"CREATE TABLE sink_table {TABLES[table]}")
    feed = Rows(opt.session, tmp_path, "SELECT * FROM VALUES (1, 'a;b'), (2, 'n'), (3, NULL) AS t (id, p)")
    opt.session.sql("INSERT INTO sink_table VALUES (0, 'x', 'y')")
    opt.session.sql("ANALYZE TABLE sink_table COMPUTE STATISTICS")
    opt.session.sql("SELECT count(*) FROM sink_table").collect()  # which lists the files
    for which, expected in (("id < 3", 3), ("id = 3", 4)):
        feed.add(which)
        stream(opt, tmp_path, "sink_table")
        assert opt.session.table("sink_table").count() == expected
    found = opt.session.table("sink_table").collect()
    opt.session.sql("TRUNCATE TABLE sink_table")
    opt.session.sql("INSERT INTO sink_table VALUES (0, 'x', 'y'), (1, 'a;b', 'w1'), (2, 'n', 'w2'), (3, NULL, 'w3')")
    assert sorted(found) == sorted(opt.session.table("sink_table").collect())
    build_source = opt.session.sql("DESCRIBE EXTENDED sink_table").where("col_name = 'Statistics'").collect()
    assert not build_source or "4 rows" in build_source[0][1] or "rows" not in build_source[0][1]


@pytest.mark.usefixtures("dropped")
def test_a_wide_struct_is_no_other_column(opt: Optimizer, tmp_path: Path) -> None:
    wide = ", ".join(f"'a{n}', {n}" for n in range(30))
    fields = ", ".join(f"a{n}: INT" for n in range(30))
    opt.session.sql(f"CREATE TABLE sink_table (id INT, wide STRUCT<{fields}>, w STRING) USING parquet")
    Rows(opt.session, tmp_path, f"SELECT 1 AS id, named_struct({wide}) AS wide").add()
    stream(opt, tmp_path, "sink_table")
    assert opt.session.table("sink_table").select("wide.a29").collect() == [(29,)]


@pytest.mark.parametrize("kind", ["CLUSTERED BY (id) INTO 2 BUCKETS", "PARTITIONED BY (w)"])
@pytest.mark.usefixtures("dropped")
def test_what_state_modules_do_not_write_is_left_to_spark_or_refused(opt: Optimizer, tmp_path: Path, kind: str) -> None:
    opt.session.sql(f"CREATE TABLE sink_table (id INT, p STRING, w STRING) USING csv OPTIONS (header 'true') {kind}")
    Rows(opt.session, tmp_path, "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t (id, p)").add()
    with pytest.raises(
        OptionError, match=r"The view cannot write to this sink: the table sink_table has (partitions|buckets)"
    ):
        opt.materialize("SELECT * FROM s", "kept", state=tmp_path / "state", sink="sink_table")
    stream(opt, tmp_path, "sink_table")
    assert sorted(opt.session.table("sink_table").collect()) == [(1, "a", "w1"), (2, "b", "w2")]


@pytest.mark.usefixtures("dropped")
def test_no_partition_stays_that_is_gone(opt: Optimizer, tmp_path: Path) -> None:
    opt.session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    opt.session.sql("CREATE TABLE sink_table (n BIGINT, p INT) USING parquet PARTITIONED BY (p)")
    feed = Rows(opt.session, tmp_path, "SELECT * FROM VALUES (1, 1), (2, 2), (3, 2) AS t (id, p)")
    query = "SELECT count(*) AS n, max(p) AS p FROM s"
    for which in ("id = 1", "id > 1"):
        feed.add(which)
        opt.materialize(query, "kept", state=tmp_path / "state", sink="sink_table", mode="complete")
        assert opt.session.table("sink_table").collect() == opt.session.table("kept").collect()
    assert opt.session.conf.get("spark.sql.sources.partitionOverwriteMode") == "dynamic"


@pytest.mark.usefixtures("dropped")
def test_what_spark_does_not_put_into_a_table_is_refused_at_once(opt: Optimizer, tmp_path: Path) -> None:
    Rows(opt.session, tmp_path, "SELECT 1 AS id, 'a' AS p").add()
    opt.session.sql("CREATE TABLE sink_table (id INT, p INT) USING parquet")
    with pytest.raises(OptionError, match=r"Spark does not write these rows into the table .*INCOMPATIBLE_DATA"):
        opt.materialize("SELECT * FROM s", "kept", state=tmp_path / "state", sink="sink_table", mode="complete")
    assert not (tmp_path / "state").exists()


def test_memory_keeps_each_value_as_it_is(opt: Optimizer, tmp_path: Path) -> None:
    opt.session.conf.set("spark.sql.session.timeZone", "America/New_York")
    values = """SELECT id, TIMESTAMP'2024-11-03 05:30:00Z' + make_dt_interval(0, id) AS t,
        make_ym_interval(id, 3) AS ym, make_date(12024, 1, id) AS d, DATE'1582-10-10' AS g, CAST('NaN' AS FLOAT) AS f,
        make_dt_interval(id) AS dt, map('a', nullif(id, 1)) AS m, X'00FF' AS b, 'x' COLLATE UTF8_LCASE AS c,
        1.50 AS n, CAST(NULL AS INT) AS i, TIMESTAMP_NTZ'2024-11-03 01:30:00' AS ntz
        FROM VALUES (1), (2), (3) AS v (id)"""
    feed = Rows(opt.session, tmp_path, values)
    for which in ("id < 3", "id = 3", "false"):
        feed.add(which)
    query = "SELECT a.*, b.w FROM s a JOIN t b ON a.id = b.id"
    opt.session.conf.set("spark.sql.files.maxPartitionBytes", "1g")
    stream(opt, tmp_path, Sink("memory"), query, name="sink_memory")
    expected = opt.session.sql(values).selectExpr("*", "concat('w', id) AS w")
    found = opt.session.table("sink_memory")
    assert [f.dataType for f in found.schema] == [f.dataType for f in expected.schema]
    shown = [f"string({c})" for c in found.columns if c != "t"] + ["unix_micros(t)"]
    assert sorted(found.selectExpr(*shown).collect(), key=str) == sorted(expected.selectExpr(*shown).collect(), key=str)


@pytest.mark.usefixtures("dropped")
def test_a_sink_is_the_same_however_it_is_spelled(
    opt: Optimizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out [1]"
    same = [f"{out}", f"{out}/", f"file:{out}", f"file://{out}", f"{tmp_path}//out [1]"]
    sinks = [sink_identity(opt.session, Sink(format_, path)) for path in same for format_ in ("parquet", "Parquet")]
    assert len(set(sinks)) == 1
    assert sink_identity(opt.session, Sink("parquet", f"{out}2")) != sinks[0]
    assert sink_identity(opt.session, Sink("orc", out)) != sinks[0]
    assert sink_identity(opt.session, Sink("parquet", out, partition_by=("id",))) != sinks[0]
    tables = ("sink_table", "`sink_table`", "DEFAULT.Sink_Table", "spark_catalog.default.sink_table")
    assert len({sink_identity(opt.session, name) for name in tables}) == 1
    assert sink_identity(opt.session, "other.sink_table") != sink_identity(opt.session, "sink_table")

    Rows(opt.session, tmp_path, "SELECT 1 AS id, 'a' AS p").add()
    for sink in (Sink("parquet", out), Sink("Parquet", f"file:{out}/")):
        opt.materialize("SELECT * FROM s", "kept", state=tmp_path / "state", sink=sink)
    assert len(list(out.glob("*.parquet"))) == 1  # nor does the second refresh, without a change, add a file
    with pytest.raises(StateError, match=r"belongs to a view with another sink: parquet, update; now: json, update"):
        opt.materialize("SELECT * FROM s", "kept", state=tmp_path / "state", sink=Sink("json", out))


@pytest.mark.usefixtures("dropped")
@pytest.mark.parametrize("kept", [False, True])
def test_a_cached_table_shows_its_new_rows_at_once(opt: Optimizer, tmp_path: Path, kept: bool) -> None:
    session, rows = opt.session, Rows(opt.session, tmp_path, "SELECT id, 'p' AS p FROM VALUES (1), (2), (3) AS t(id)")
    session.sql(
        f"CREATE TABLE sink_table(id INT, p STRING, w STRING{', _change_type STRING' if kept else ''}) USING orc"
    )
    session.sql("CACHE TABLE sink_table")
    for n in (1, 2, 3):
        rows.add(f"id = {n}")
        if kept:
            opt.materialize(JOIN, "cached", state=tmp_path / "state", sink="sink_table")
        else:
            stream(opt, tmp_path, "sink_table")
        assert session.table("sink_table").count() == n


@pytest.mark.usefixtures("dropped")
@pytest.mark.parametrize(
    "made", ["USING csv", "USING orc PARTITIONED BY (p)", "USING orc OPTIONS (compression 'none')"]
)
def test_a_held_view_does_not_write_to_a_table_that_was_made_anew(opt: Optimizer, tmp_path: Path, made: str) -> None:
    columns = "(id INT, p STRING, w STRING, _change_type STRING)"
    session, rows = opt.session, Rows(opt.session, tmp_path, "SELECT id, 'p' AS p FROM VALUES (1), (2) AS t(id)")
    session.sql(f"CREATE TABLE sink_table{columns} USING orc")
    rows.add("id = 1")
    view = opt.materialize(JOIN, "held", state=tmp_path / "state", sink="sink_table")
    session.sql("DROP TABLE sink_table")
    session.sql(f"CREATE TABLE sink_table{columns} {made}")
    rows.add("id = 2")
    with pytest.raises(StateError, match="sink_table has changed"):
        view.refresh()
    assert session.table("sink_table").count() == 0
