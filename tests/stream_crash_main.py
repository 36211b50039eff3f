"""A join of a stream with itself, or views of it, in a process to be killed: stream_crash_main.py FOLDER NAME QUERY.

Says "ready", and waits for a line on stdin, so that the next driver can get ready while one still runs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail import Optimizer, Sink
from sessions import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dovetail.optimizer.views.materialized_view import MaterializedView

_TWO = """SELECT a.id, b.id AS bid, a.ts FROM s a JOIN s b
ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 3 SECONDS AND b.ts + INTERVAL 2 SECONDS AND a.id <> b.id"""
_THREE = """SELECT a.id, b.id AS bid, c.id AS cid FROM s a JOIN s b
ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 1 SECONDS AND b.ts + INTERVAL 2 SECONDS AND a.id <> b.id
JOIN s c ON b.k = c.k AND c.ts BETWEEN b.ts AND b.ts + INTERVAL 2 SECONDS AND c.id > 5"""
_KEPT = "SELECT a.k, count(*) AS n, sum(b.v) AS v FROM s a JOIN s b ON a.k = b.k AND a.id <= b.id GROUP BY a.k"
_LEAST = "SELECT a.k, min(b.v) AS v FROM s a JOIN s b ON a.k = b.k AND a.id <= b.id GROUP BY a.k"
QUERIES = {"two": _TWO, "three": _THREE, "kept": _KEPT, "least": _LEAST}


def run(session: SparkSession, folder: Path, name: str, query: str) -> None:
    """Take the files of FOLDER/NAME.in, one to an epoch, until all have been taken."""
    session.conf.set("spark.sql.streaming.minBatchesToRetain", "10000")  # the test reads which files an epoch took
    stream = session.readStream.schema("id INT, k INT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
    stream.json(str(folder / f"{name}.in")).withWatermark("ts", "5 seconds").createOrReplaceTempView("s")
    sink, checkpoint = Sink("parquet", folder / name / "out"), folder / name / "checkpoint"
    opt = Optimizer(session)
    opt.stream(QUERIES[query], checkpoint=checkpoint, sink=sink, trigger="available now").awaitTermination()


def keep(session: SparkSession, folder: Path, name: str, query: str) -> MaterializedView:
    """Refresh the view in FOLDER/NAME over the changes in FOLDER/NAME.in, one file to an epoch.

    ``together``: two views, the second of which comes once the first has been there for a few epochs.
    """
    stream = session.readStream.schema("id INT, k INT, v INT, op STRING").option("maxFilesPerTrigger", 1)
    stream.json(str(folder / f"{name}.in")).createOrReplaceTempView("s")
    opt = Optimizer(session)
    opt.declare_changelog("s", "op")
    if query != "together":
        return opt.materialize(QUERIES[query], query, state=folder / name)
    names = ["kept", "least"] if (folder / name / "checkpoint" / "commits" / "3").exists() else ["kept"]
    return opt.materialize_all({one: QUERIES[one] for one in names}, state=folder / name)["kept"]


def main(folder: Path, name: str, query: str) -> None:
    session = start(os.environ.get("DOVETAIL_SESSION", "classic"), folder / "spark")
    print("ready", flush=True)
    sys.stdin.readline()
    (run if query in ("two", "three") else keep)(session, folder, name, query)
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
