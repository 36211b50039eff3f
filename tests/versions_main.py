"""Every kind of rewriting on the installed PySpark, rows compared with plain Spark's: a line each, and exit code 1 on a
difference.

`make test-versions` runs it in an environment of its own for each version; with the argument ``sail`` on a server of
Sail.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))

from dovetail import Optimizer, Options, Sink, SQLiteSource

BAND = "p.x BETWEEN i.lo AND i.hi"
BEFORE = "p.k = i.k AND i.lo <= p.x"
LAST = "row_number() OVER (PARTITION BY p.id ORDER BY i.lo DESC)"
FAR = "abs(CAST(p.x AS DOUBLE) - i.lo)"
QUERIES = {
    **{f"band, {join or 'INNER'}": f"SELECT p.id, i.id AS i FROM p {join} JOIN i ON {BAND}" for join in ("", "LEFT")},
    **{f"band, {join}": f"SELECT p.id, i.id AS i FROM p {join} JOIN i ON {BAND}" for join in ("RIGHT", "FULL")},
    "band and equality": f"SELECT p.id, i.id AS i FROM p JOIN i ON p.k = i.k AND {BAND}",
    "band, LEFT SEMI": f"SELECT p.id FROM p LEFT SEMI JOIN i ON {BAND} AND p.k = i.k",
    "band, LEFT ANTI": f"SELECT p.id FROM p LEFT ANTI JOIN i ON {BAND} AND p.k = i.k",
    "band, EXISTS": f"SELECT id FROM p WHERE EXISTS (SELECT 1 FROM i WHERE {BAND})",
    "one bound, EXISTS": "SELECT p.id FROM p WHERE EXISTS (SELECT 1 FROM i WHERE i.k = p.k AND i.lo >= p.x)",
    "one bound, ANTI": "SELECT p.id FROM p LEFT ANTI JOIN i ON i.hi < p.x",
    "band, no end": "SELECT p.id, i.id AS i FROM p JOIN i ON p.x >= i.lo "
    "AND (p.x < nullif(i.hi, 23) OR nullif(i.hi, 23) IS NULL)",
    "distance": "SELECT p.id, q.id AS q FROM p JOIN p q ON p.x BETWEEN q.x - 3 AND q.x + 2",
    "overlap": "SELECT a.id, b.id AS b FROM i a JOIN i b ON a.lo <= b.hi AND b.lo <= a.hi",
    "aggregate by interval": f"SELECT i.id, count(*) AS n, sum(p.v) AS s FROM p JOIN i ON {BAND} GROUP BY i.id",
    "aggregate by point": f"SELECT p.id, count(*) AS n FROM p JOIN i ON {BAND} GROUP BY p.id",
    "unique key": "SELECT a.id, b.v FROM t a JOIN t b ON a.id = b.id",
    "correlated aggregate": "SELECT id, (SELECT sum(b.v) FROM t b WHERE b.k = a.k AND b.x <= a.x) AS s FROM t a",
    "own group": "SELECT a.id FROM t a WHERE a.v > (SELECT avg(b.v) FROM t b WHERE b.k = a.k)",
    "pairs that differ": "SELECT id FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.k = a.k AND b.v <> a.v)",
    "nearest row": f"SELECT id, lo FROM (SELECT p.id, i.lo, {LAST} AS n FROM p JOIN i ON {BEFORE}) WHERE n = 1",
    "nearest three": f"SELECT id, lo FROM (SELECT p.id, i.lo, {LAST} AS n FROM p JOIN i ON {BEFORE}) WHERE n <= 3",
    "least distant": f"SELECT id, d FROM (SELECT p.id, {FAR} AS d, row_number() OVER (PARTITION BY p.id "
    f"ORDER BY {FAR}) AS n FROM p JOIN i ON p.k = i.k) WHERE n <= 2",
    "least distant one": f"SELECT id, d FROM (SELECT p.id, {FAR} AS d, row_number() OVER (PARTITION BY p.id "
    f"ORDER BY {FAR}) AS n FROM p LEFT JOIN i ON p.k = i.k) WHERE n = 1",
    "nearest, filtered": f"SELECT id, lo FROM (SELECT p.id, i.lo, {LAST} AS n FROM p LEFT JOIN i ON {BEFORE} "
    "AND p.v <> 1) WHERE n = 1",
    "nearest, grouped": f"SELECT p.id, max_by(i.id, i.lo) AS i FROM p LEFT JOIN i ON {BEFORE} GROUP BY p.id",
    "nearest time": f"SELECT p.id FROM p WHERE p.x - 1 > (SELECT max(i.lo) FROM i WHERE {BEFORE})",
    "nearest, zeros of both signs": "SELECT id, rid FROM (SELECT l.id, r.id AS rid, "
    "row_number() OVER (PARTITION BY l.id ORDER BY r.x DESC, r.id) AS n "
    "FROM z l JOIN z r ON l.v = -r.v AND r.x <= l.x) WHERE n = 1",
    "one bound, NaN": "SELECT l.id FROM z l WHERE EXISTS (SELECT 1 FROM z r WHERE r.f < l.f)",
    "one bound, infinity": "SELECT p.id FROM p "
    "WHERE EXISTS (SELECT 1 FROM z r WHERE r.k = p.k AND r.i > p.x * DOUBLE('-inf'))",
    "own group, zeros of both signs": "SELECT id, (SELECT min(b.x) FROM z b WHERE b.v = a.v) AS m FROM z a",
    "scalar aggregates": "SELECT (SELECT count(*) FROM t WHERE v = 1) AS n, (SELECT sum(v) FROM t WHERE k = 2) AS s",
}
# Without ANSI mode, which is the default from Spark 4 on, differences of integers wrap around.
WRAPPED = (
    "SELECT id, d FROM (SELECT a.id, abs(a.x - b.x) AS d, "
    "row_number() OVER (PARTITION BY a.id ORDER BY abs(a.x - b.x)) AS n "
    "FROM (SELECT id, CAST(IF(k = 1, -2147483648, 1) + x AS INT) AS x FROM p) a "
    "JOIN (SELECT CAST(2147483540 + v * 40 AS INT) AS x FROM p) b) WHERE n = 1"
)
FRAMES = "SELECT e.id, i.id AS i FROM {e} e JOIN i ON e.x BETWEEN i.lo AND i.hi"
AS_OF = "SELECT p.id, i.lo FROM p ASOF JOIN i MATCH_CONDITION (p.x >= i.lo) ON p.k = i.k"
NEAREST_BY = f"SELECT p.id, {FAR} AS d FROM p JOIN i EXACT NEAREST 2 BY DISTANCE {FAR}"
RANKED = (
    f"SELECT id, d FROM (SELECT p.id, {FAR} AS d, row_number() OVER (PARTITION BY p.id ORDER BY {FAR}) AS n "
    "FROM p CROSS JOIN i) WHERE n <= 2"
)
LOOKUP = "SELECT p.id, n.name FROM p LEFT JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON p.x = n.x"
REFUSED = "not run by the engine"  # plain, without Dovetail
STREAMS = "SELECT a.id, b.id AS b FROM a JOIN b ON a.k = b.k AND a.x BETWEEN b.x - 3 AND b.x + 3"


def main() -> int:
    """Run everything, and print a line each."""
    start = sail_session if sys.argv[1:] == ["sail"] else classic_session
    with tempfile.TemporaryDirectory() as name, start(Path(name)) as session:
        differ = 0
        for what, seen in observe(session, Path(name)):
            differ += seen not in ("rewritten", "as written", REFUSED)
            print(json.dumps({"spark": pyspark.__version__, "what": what, "seen": seen}), flush=True)
    return bool(differ)


@contextmanager
def classic_session(folder: Path) -> Iterator[SparkSession]:
    """Start a session of two threads."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def sail_session(_: Path) -> Iterator[SparkSession]:
    """Start a server of Sail in this process, and a session of it."""
    from pysail.spark import SparkConnectServer  # type: ignore[import-not-found]

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    host, port = server.listening_address
    session = SparkSession.builder.remote(f"sc://{host}:{port}").getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        server.stop()


def observe(session: SparkSession, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what was tried, and what came of it."""
    opt = Optimizer(session, Options(force=True))
    columns = ("id", "cast(id * 7 % 100 AS INT) AS x", "cast(id % 5 AS INT) AS k", "id % 3 AS v")
    session.range(300).selectExpr(*columns).createOrReplaceTempView("p")
    ends = ("id", "cast(id * 2 AS INT) AS lo", "cast(id * 2 + 3 AS INT) AS hi", "cast(id % 5 AS INT) AS k")
    session.range(50).selectExpr(*ends).createOrReplaceTempView("i")
    zeros = ("id", "x", "k", "IF(v = 1, -0.0D, CAST(v AS DOUBLE)) AS v", "IF(id % 7 = 0, DOUBLE('NaN'), x / 2) AS f")
    session.table("p").selectExpr(*zeros, "DOUBLE('-inf') AS i").createOrReplaceTempView("z")
    session.table("p").write.parquet(str(folder / "t"))
    session.read.parquet(str(folder / "t")).createOrReplaceTempView("t")
    opt.declare_key("t", ["id"])
    for what, text in QUERIES.items():
        yield what, outcome(lambda text=text: (opt.plan(text), session.sql(text)))  # type: ignore[misc]
    yield "distance that wraps", outcome(lambda: (opt.plan(WRAPPED), session.sql(WRAPPED)))
    events = session.table("p")
    yield "frames", outcome(lambda: (opt.plan(FRAMES, e=events), session.sql(FRAMES, e=events)))
    yield "an existing frame", outcome(lambda: existing_frame(opt, events, session.table("i")))
    yield "installed", installed(session, opt.options)
    yield "as-of join", outcome(lambda: (opt.plan(AS_OF), session.sql(QUERIES["nearest row"])))
    if not hasattr(session, "_jsparkSession"):
        yield "command line", command_line(folder)
        return  # what Sail cannot run rewritten, nor as written
    yield "nearest by", outcome(lambda: (opt.plan(NEAREST_BY), session.sql(RANKED)))
    yield "as-of join of frames", as_of_frames(session, opt)
    yield "lookup", lookup(opt, folder)
    streams_of(session, folder)
    yield "stream", stream(opt, folder)
    yield "materialized view", view(opt, folder)


def command_line(folder: Path) -> str:
    """The command line on a server of Sail of its own, without a Java to be found."""
    (folder / "points.csv").write_text("x\n1\n5\n9\n")
    (folder / "spans.csv").write_text("lo,hi\n0,4\n5,6\n")
    query = "SELECT p.x, i.lo FROM points p JOIN spans i ON p.x BETWEEN i.lo AND i.hi"
    tables = ["-t", f"points={folder}/points.csv", "-t", f"spans={folder}/spans.csv"]
    done = subprocess.run(
        [sys.executable, "-m", "dovetail", "run", "--json", "--force", "--sql", query, *tables],
        env={**os.environ, "JAVA_HOME": "/nonexistent", "PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return done.stderr
    seen = json.loads(done.stdout)
    return "rewritten" if seen["rewritten"] and sorted(map(list, seen["rows"])) == [[1, 0], [5, 5]] else done.stdout


def outcome(run: Callable[[], tuple[Any, Any]]) -> str:
    """``rewritten`` or ``as written`` where the rows are those of plain Spark; else what differs.

    An engine other than Spark may not run the plain query either.
    """
    try:
        plan, plain = run()
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}".splitlines()[0]
    try:
        expected = rows(plain)
    except PySparkException:
        return REFUSED
    try:
        found = rows(plan.dataframe())
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}".splitlines()[0]
    if found != expected:
        return f"{len(found)} rows differ from {len(expected)} of plain Spark"
    return "rewritten" if plan.rewritten else "as written"


def existing_frame(opt: Optimizer, events: DataFrame, intervals: DataFrame) -> tuple[Any, DataFrame]:
    """Plan a DataFrame that exists already."""
    band = (events.x >= intervals.lo) & (events.x <= intervals.hi)
    frame = events.alias("e").join(intervals.alias("i"), band, "left").filter("e.x > 3").groupBy("i.id").count()
    return opt.plan(frame), frame


def as_of_frames(session: SparkSession, opt: Optimizer) -> str:
    """Join two DataFrames by the nearest row."""
    right = session.table("i").withColumnRenamed("id", "seq")
    try:
        found = opt.join_asof(session.table("p"), right, left_on="x", right_on="lo", by="k", how="inner")
        return (
            "rewritten" if rows(found.select("id", "lo")) == rows(session.sql(QUERIES["nearest row"])) else "other rows"
        )
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}".splitlines()[0]


def installed(session: SparkSession, options: Options) -> str:
    """Run a band by ``spark.sql`` of a session on which Dovetail is installed."""
    text = QUERIES["band, FULL"]
    expected = rows(session.sql(text))
    with Optimizer(session, options):
        frame = session.sql(text)
    if rows(frame) != expected:
        return "other rows"
    found = Optimizer(session, options).plan(text)
    return "rewritten" if found.rewritten else "as written"


def lookup(opt: Optimizer, folder: Path) -> str:
    """Look up names in an SQLite file."""
    with sqlite3.connect(folder / "names.db") as database:
        database.execute("CREATE TABLE names (x INTEGER, name TEXT)")
        database.executemany("INSERT INTO names VALUES (?, ?)", [(n, f"n{n}") for n in range(0, 100, 3)])
    database.close()
    opt.session.sql("SELECT id AS x, concat('n', id) AS name FROM range(0, 100, 3)").createOrReplaceTempView("plain")
    try:
        opt.register_lookup("names", SQLiteSource("names", path=folder / "names.db"))
        found = rows(opt.sql(LOOKUP))
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}".splitlines()[0]
    expected = rows(opt.session.sql("SELECT p.id, n.name FROM p LEFT JOIN plain n ON p.x = n.x"))
    return "rewritten" if found == expected else "other rows"


def streams_of(session: SparkSession, folder: Path) -> None:
    """Make the streams ``a`` and ``b`` of files, and the tables ``a_rows`` and ``b_rows`` of the same rows."""
    for name, part in (("a", "id < 200"), ("b", "id >= 100")):
        path = str(folder / "streams" / name)
        session.table("p").where(part).write.parquet(path)
        frame = session.read.parquet(path)
        frame.createOrReplaceTempView(f"{name}_rows")
        session.readStream.schema(frame.schema).parquet(path).createOrReplaceTempView(name)


def stream(opt: Optimizer, folder: Path) -> str:
    """Join two streams into files, until all is read."""
    out = folder / "out"
    try:
        query = opt.stream(
            STREAMS, checkpoint=folder / "checkpoint", sink=Sink("parquet", out), trigger="available now"
        )
        query.awaitTermination()
        found = rows(opt.session.read.parquet(str(out)))
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return "rewritten" if found == _expected(opt.session) else "other rows"


def view(opt: Optimizer, folder: Path) -> str:
    """Build a materialized view of the join of two streams, and refresh it."""
    try:
        kept = opt.materialize(STREAMS, "joined", state=folder / "state")
        kept.refresh()
        found = rows(kept.table())
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return "rewritten" if found == _expected(opt.session) else "other rows"


def _expected(session: SparkSession) -> list[str]:
    return rows(session.sql(STREAMS.replace("FROM a ", "FROM a_rows a ").replace("JOIN b ", "JOIN b_rows b ")))


def rows(frame: Any) -> list[str]:
    """Return the rows of a frame in one order."""
    return sorted(map(str, frame.collect()))


if __name__ == "__main__":
    sys.exit(main())
