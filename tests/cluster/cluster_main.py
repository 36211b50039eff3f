"""A driver of a standalone cluster: statements with Dovetail and by plain Spark, as JSON, a line each.

``python cluster_main.py statements|lookups|kills PYTHON [ZIP]``: PYTHON runs the executors' Python workers, and has no
Dovetail; ZIP is what ``spark-submit --py-files`` would bring.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import versions_main
from dovetail import HttpSource
from killing import kills
from outcomes import first_line, optimizer, outcome, rows
from servers import HttpService
from standalone import WORKERS, Cluster, cluster_session, executors

NEAR = "abs(a.x - b.x) <= 2 AND abs(a.y - b.y) <= 2"
MORE = {
    **{f"grid, {join}": f"SELECT a.id, b.id AS b FROM g a {join} JOIN g b ON {NEAR}" for join in ("INNER", "LEFT")},
    "grid, LEFT ANTI": f"SELECT a.id FROM g a LEFT ANTI JOIN g b ON {NEAR} AND a.id <> b.id",
    **{
        f"OR of keys, {join}": f"SELECT a.id, b.id AS b FROM g a {join} JOIN h b ON a.x = b.x OR a.y = b.y"
        for join in ("INNER", "LEFT", "FULL")
    },
    "OR of keys, LEFT SEMI": "SELECT a.id FROM g a LEFT SEMI JOIN h b ON a.x = b.y OR a.y = b.x",
    "IN": "SELECT a.id, b.id AS b FROM g a JOIN h b ON a.x IN (b.x, b.y)",
    "NULL as any value": "SELECT a.id, b.id AS b FROM g a JOIN h b ON (a.x = b.n OR b.n IS NULL) AND a.id < b.id",
    "prefixes": "SELECT a.id, b.id AS b FROM g a JOIN h b ON startswith(a.t, b.t)",
    "arrays": "SELECT a.id, b.id AS b FROM g a JOIN h b ON arrays_overlap(array(a.x, a.y), array(b.x, b.y))",
    "aggregate of a LEFT band": "SELECT i.id, count(p.id) AS n, sum(p.v) AS s FROM i LEFT JOIN p "
    "ON p.x BETWEEN i.lo AND i.hi GROUP BY i.id",
    "nested": "SELECT b.id, count(*) AS n FROM (SELECT a.id, a.x FROM g a JOIN h ON a.x = h.x OR a.y = h.y) b "
    "JOIN i ON b.x BETWEEN i.lo AND i.hi GROUP BY b.id",
}
KINDS = ("band", "distance", "overlap", "aggregate", "nearest row", "nearest three", "least distant")
SHUFFLED = {what: text for what, text in versions_main.QUERIES.items() if what.startswith(KINDS)}
NAMES = "SELECT p.id, n.name FROM p LEFT JOIN web FOR SYSTEM_TIME AS OF PROCTIME() AS n ON p.x = n.id"


def main(group: str, python: str, archive: str = "") -> None:
    """Try a group, and print a line for each thing that is tried."""
    settings = {"spark.submit.pyFiles": archive} if archive else {}
    with tempfile.TemporaryDirectory() as name, cluster_session(Path(name), python, **settings) as (cluster, session):
        try:
            for what, seen in GROUPS[group](cluster, session, Path(name)):
                print(json.dumps({"group": group, "what": what, "seen": seen}), flush=True)
        except Exception as error:  # noqa: BLE001 - of Spark, or of a process that does not start
            print(json.dumps({"group": group, "what": "ended", "seen": first_line(error)}), flush=True)


def statements(_: Cluster, session: SparkSession, folder: Path) -> Iterator[tuple[str, str]]:
    """Every kind of statement, on executors without Dovetail."""
    assert importable(session) == {False}, "the executors' Python has Dovetail"
    for what, word in versions_main.observe(session, folder):
        if what == "lookup":
            assert word.startswith("PythonException"), f"a lookup without Dovetail: {word}"
        elif word != versions_main.REFUSED:  # plain Spark raises an error, so there is nothing to compare
            yield what, word
    opt = optimizer(session)
    for name, count in (("g", 400), ("h", 300)):
        columns = ("id", "CAST(id * 37 % 211 AS INT) AS x", "CAST(id * 53 % 97 AS INT) AS y")
        texts = ("IF(id % 4 = 0, NULL, CAST(id * 37 % 211 AS INT)) AS n", "CAST(id * 37 % 211 AS STRING) AS t")
        session.range(0, count, 1, 6).selectExpr(*columns, *texts).write.parquet(str(folder / name))
        session.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    for threshold, how in (("10m", ""), ("-1", ", no broadcast")):
        session.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
        for what, text in (MORE | (SHUFFLED if how else {})).items():
            yield what + how, outcome(opt, text)
    tasks = executors(session)
    assert sum(count > 0 for count in tasks.values()) == WORKERS, f"an executor ran no task: {tasks}"


def lookups(_: Cluster, session: SparkSession, folder: Path) -> Iterator[tuple[str, str]]:
    """Lookups, whose Dovetail comes to the executors by ``--py-files``."""
    assert importable(session) == {True}, "the executors did not get Dovetail by --py-files"
    points = session.range(0, 300, 1, 4).selectExpr("id", "CAST(id * 7 % 100 AS INT) AS x")
    points.createOrReplaceTempView("p")
    opt = optimizer(session)
    yield "SQLite", versions_main.lookup(opt, folder)
    kept = [{"id": n, "name": f"n{n}"} for n in range(0, 100, 3)]
    service = HttpService(kept)
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    opt.register_lookup("web", HttpSource(service.url, schema=schema, keys=("id",), unique_keys=(("id",),)))
    found = rows(opt.sql(NAMES))
    service.stop()
    wanted = rows(session.sql("SELECT p.id, n.name FROM p LEFT JOIN plain n ON p.x = n.x"))
    yield "HTTP", "rewritten" if found == wanted and service.requests else "other rows"


def importable(session: SparkSession) -> set[bool]:
    """Whether a task can import Dovetail: the answers of all tasks."""

    def find(_: object) -> bool:
        import importlib.util

        return importlib.util.find_spec("dovetail") is not None

    return set(session.sparkContext.parallelize(range(8), 8).map(find).collect())


GROUPS: dict[str, Callable[[Cluster, SparkSession, Path], Iterator[tuple[str, str]]]] = {
    "statements": statements,
    "lookups": lookups,
    "kills": kills,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)
