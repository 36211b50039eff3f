"""What the API shows on one session, as JSON: `python where_it_runs_main.py cluster|connect SCRATCH`."""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from pathlib import Path
from time import sleep
from typing import Any

from pyspark.sql import SparkSession

from sessions import start

POINTS = [(1, 5), (2, 5), (3, 10), (4, 25), (5, -3), (6, None), (None, 7)]
INTERVALS = [(1, 0, 5), (2, 5, 10), (3, 20, 30), (4, 30, 20), (5, None, 9), (6, -(10**6), 10**6), (6, 7, 7)]
BAND = "SELECT p.id, i.id FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi"
NAMES = [(5, "five"), (10, "ten"), (10, "zehn"), (30, "thirty")]
LOOKUP = "SELECT p.id, n.name FROM p LEFT JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON p.x = n.x"
READ_TWICE = {  # whether two reads return the same rows
    "SELECT * FROM q": True,
    "SELECT q.x, sum(q.id) AS s, avg(CAST(q.id AS BIGINT)) FROM q JOIN j ON q.x = j.lo GROUP BY q.x": True,
    "WITH c AS (SELECT x FROM q) SELECT * FROM c a JOIN c b ON a.x = b.x WHERE a.x > (SELECT min(x) FROM c)": True,
    "SELECT same(x) FROM q": True,
    "SELECT * FROM q WHERE x < year(current_date())": True,
    "SELECT x, rand() AS r FROM q": False,
    "SELECT * FROM q WHERE uuid() > 'a'": False,
    "WITH c AS (SELECT x, randn() AS r FROM q) SELECT x FROM c WHERE r > 0": False,
    "SELECT * FROM q WHERE x > (SELECT max(lo) * rand() FROM j)": False,
    "SELECT * FROM q WHERE EXISTS (SELECT 1 FROM j WHERE j.lo > q.x AND rand() < 1)": False,
    "SELECT * FROM at_random": False,
    "SELECT other(x) FROM q": False,
    "SELECT spark_partition_id() AS n FROM q": False,
    "SELECT x, sum(CAST(id AS DOUBLE)) AS s FROM q GROUP BY x": False,
    "SELECT x, first(id) AS f FROM q GROUP BY x": False,
    "SELECT * FROM q LIMIT 2": False,
    "SELECT * FROM q TABLESAMPLE (50 PERCENT)": False,
    "SELECT x, row_number() OVER (ORDER BY id) AS n FROM q": False,
    "SELECT '\n== Optimized Logical Plan ==\n' AS t, x FROM q LIMIT 2": False,
    "SELECT no_column FROM q": False,
}
NO_JOIN = "SELECT id,  x + 1 AS next FROM p WHERE x > 5"


def observe(session: SparkSession) -> dict[str, Any]:
    """Run the smoke test of the API and tell what it showed."""
    from dovetail import Optimizer, Options

    session.createDataFrame(POINTS, "id INT, x INT").createOrReplaceTempView("p")
    session.createDataFrame(INTERVALS, "id INT, lo INT, hi INT").createOrReplaceTempView("i")
    opt = Optimizer(session, Options(force=True))
    kind = "connect" if "connect" in type(session).__module__ else "classic"
    band, no_join = opt.plan(BAND), opt.plan(NO_JOIN)
    return {
        "session": [kind, session.conf.get("spark.master")],
        "band_rewritten": band.rewritten,
        "band_explained": bool(band.explain()),
        "band_rows": rows(opt.sql(BAND)),
        "band_verified": opt.verify(BAND).same,
        "no_join_rewritten": no_join.rewritten,
        "no_join_rows": rows(opt.sql(NO_JOIN)),
        "spark_band_rows": rows(session.sql(BAND)),
        "spark_no_join_rows": rows(session.sql(NO_JOIN)),
        "lookup_rows": looked_up(opt),
        **over_frames(session, opt),
        "repeatable": repeatable(session),
        "views_rewritten": over_views(session, opt),
        "keys": with_keys(session, opt),
        "kept": kept(opt),
        "views_left": sorted(t.name for t in session.catalog.listTables()),
    }


def over_frames(session: SparkSession, opt: Any) -> dict[str, Any]:
    """The same band over DataFrames that no view has, planned, planned to run later, and run."""
    frames: dict[str, Any] = {"points": session.table("p"), "ends": session.table("i")}
    text = "SELECT p.id, i.id FROM {points} p JOIN {ends} i ON p.x BETWEEN i.lo AND i.hi WHERE '{{' <> {text}"
    plan = opt.plan(text, text="it's", **frames)
    return {
        "frames_rewritten": plan.rewritten,
        "frames_rows": rows(opt.sql(text, text="it's", **frames)),
        "frames_rows_later": rows(plan.dataframe()),
        "asof_rows": rows(opt.join_asof(*frames.values(), left_on="x", right_on="lo").select("id", "lo")),
    }


def repeatable(session: SparkSession) -> list[str]:
    """The queries that are taken for what they are not."""
    from pyspark.sql.functions import udf

    from dovetail.executor.catalog.spark_catalog import SparkCatalog

    session.udf.register("same", udf(lambda x: x, "int"))
    session.udf.register("other", udf(lambda x: x, "int").asNondeterministic())
    views = {
        "q": "SELECT id, id % 3 AS x FROM VALUES (1L), (2L), (3L) AS d(id)",
        "j": "SELECT * FROM VALUES (1L), (2L) AS d(lo)",
        "at_random": "SELECT id, rand() AS r FROM VALUES (1L), (2L) AS d(id)",
    }
    for name, query in views.items():
        session.sql(query).createOrReplaceTempView(name)
    catalog = SparkCatalog(session)
    reasons = {query: catalog.nonrepeatable_reason(query) for query in READ_TWICE}
    for name in views:
        session.catalog.dropTempView(name)
    return [f"{query}: {why}" for query, why in reasons.items() if (why is None) != READ_TWICE[query]]


def over_views(session: SparkSession, opt: Any) -> dict[str, bool]:
    """Whether a query over a view is rewritten, by what happened since the view was made."""
    query, found = "SELECT count(*) FROM pairs", {}
    session.sql(f"CREATE TEMP VIEW pairs AS {BAND.replace('i.id', 'i.id AS interval')}")
    found["as made"] = opt.plan(query).rewritten
    band = "p.x + 1 BETWEEN i.lo AND i.hi"
    session.sql(f"CREATE OR REPLACE TEMP VIEW pairs AS SELECT p.id FROM p JOIN i ON {band}")
    found["made anew"] = opt.plan(query).rewritten
    ansi = session.conf.get("spark.sql.ansi.enabled")
    session.conf.set("spark.sql.ansi.enabled", "false" if ansi == "true" else "true")
    found["under another setting"] = opt.plan(query).rewritten
    session.conf.set("spark.sql.ansi.enabled", str(ansi))
    session.catalog.dropTempView("pairs")
    return found


def with_keys(session: SparkSession, opt: Any) -> dict[str, bool]:
    """Whether a self-join on a key of a view over a table goes, by what happened since the key was declared."""
    query, found = "SELECT a.v FROM keyed a JOIN keyed b ON a.id = b.id", {}

    def make(rows: str) -> None:
        session.sql("DROP TABLE IF EXISTS where_it_runs")
        session.sql(f"CREATE TABLE where_it_runs USING parquet AS SELECT * FROM VALUES {rows} AS d(id, v)")

    make("(1, 1), (2, 1)")
    session.sql("CREATE TEMP VIEW keyed AS SELECT id, v FROM where_it_runs WHERE id > 0")
    opt.declare_key("keyed", ["id"])
    found["same table"] = opt.plan(query).rewritten
    sleep(1.1)  # the time of creation is known in seconds
    make("(1, 1), (1, 2)")
    found["another table"] = opt.plan(query).rewritten
    session.catalog.dropTempView("keyed")
    session.sql("DROP TABLE where_it_runs")
    return found


def kept(opt: Any) -> str:
    """Why there is no materialized view over what is no stream."""
    from dovetail import QueryError

    try:
        opt.materialize(NO_JOIN, "kept", state="nowhere")
    except QueryError as error:
        return str(error)
    return "it is kept"


def looked_up(opt: Any) -> list[list[int | None]]:
    """Points look up their names in an SQLite file, which the workers read."""
    from dovetail.executor.connectors.sqlite import SQLiteSource

    with tempfile.TemporaryDirectory() as folder:
        with sqlite3.connect(Path(folder, "names.db")) as database:
            database.execute("CREATE TABLE names (x INTEGER, name TEXT)")
            database.executemany("INSERT INTO names VALUES (?, ?)", NAMES)
        database.close()
        opt.register_lookup("names", SQLiteSource("names", path=Path(folder, "names.db")))
        braces = rows(opt.sql(LOOKUP.replace("p.id,", "p.id, '{n}' AS braces,")))
        again = rows(opt.sql(LOOKUP))
        over_a_frame = opt.sql(LOOKUP.replace("FROM p", "FROM {points} p"), points=opt.session.table("p"))
        if rows(over_a_frame) != again:
            return rows(over_a_frame)
        return again if [[row[0], row[2]] for row in braces] == again else braces


def rows(frame: Any) -> list[list[int | None]]:
    """Return a frame's rows in one order, as JSON has them."""
    return sorted(map(list, frame.collect()), key=repr)


if __name__ == "__main__":
    session = start(sys.argv[1], Path(sys.argv[2]))
    try:
        print(json.dumps(observe(session)))
    finally:
        session.stop()
