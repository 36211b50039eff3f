"""What the API shows on one session, as JSON: `python where_it_runs_main.py cluster|connect SCRATCH`."""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sessions import start

POINTS = [(1, 5), (2, 5), (3, 10), (4, 25), (5, -3), (6, None), (None, 7)]
INTERVALS = [(1, 0, 5), (2, 5, 10), (3, 20, 30), (4, 30, 20), (5, None, 9), (6, -(10**6), 10**6), (6, 7, 7)]
BAND = "SELECT p.id, i.id FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi"
NAMES = [(5, "five"), (10, "ten"), (10, "zehn"), (30, "thirty")]
LOOKUP = "SELECT p.id, n.name FROM p LEFT JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON p.x = n.x"
NO_JOIN = "SELECT id,  x + 1 AS next FROM p WHERE x > 5"


def observe(session: SparkSession) -> dict[str, Any]:
    """Run the smoke test of the API and tell what it showed."""
    from optimizer import Optimizer, Options

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


def kept(opt: Any) -> str:
    """Why there is no materialized view over what is no stream."""
    from optimizer import QueryError

    try:
        opt.materialize(NO_JOIN, "kept", state="nowhere")
    except QueryError as error:
        return str(error)
    return "it is kept"


def looked_up(opt: Any) -> list[list[int | None]]:
    """Points look up their names in an SQLite file, which the workers read."""
    from planner.connectors.sqlite import SQLiteSource

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
