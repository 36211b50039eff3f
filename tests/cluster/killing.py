"""A worker of a cluster is killed while a statement or a joined stream runs; the rows have to be the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dovetail import Sink
from outcomes import REWRITTEN, first_line, optimizer, rows, word
from standalone import WORKERS, Cluster, executors
from waiting import until

POINTS, INTERVALS, FILES = 160_000, 2_000, 24
BAND = "SELECT p.id, p.x, i.id AS i, i.hi FROM p {} JOIN i ON p.x BETWEEN i.lo AND i.hi"
QUERIES = {
    "a band": BAND.format("INNER"),
    "a band, LEFT": BAND.format("LEFT"),
    "a band, FULL": BAND.format("FULL"),
    "an OR of keys": "SELECT a.id, b.id AS b FROM p a JOIN i b ON a.x = b.lo OR a.y = b.hi",
    "an aggregate of a band": "SELECT i.id, count(*) AS n, sum(p.id) AS s FROM p JOIN i "
    "ON p.x BETWEEN i.lo AND i.hi GROUP BY i.id",
}
STREAMS = "SELECT a.id, b.id AS b FROM a{0} a JOIN b{0} b ON a.k = b.k AND a.x BETWEEN b.x - 3 AND b.x + 3"
EPOCHS = 6


def kills(cluster: Cluster, session: SparkSession, folder: Path) -> Iterator[tuple[str, str]]:
    """Kill a worker in each of the queries, with another one in its place afterwards."""
    _write(session, folder)
    for what, text in QUERIES.items():
        yield f"a worker killed in {what}", _killed(cluster, session, text)
    yield f"a worker killed in a join of streams of {EPOCHS} epochs", _stream(cluster, session, folder)


def _write(session: SparkSession, folder: Path) -> None:
    domain = 1_000_000
    points = ("id", f"CAST(hash(id) % {domain} AS INT) AS x", "CAST(id % 5003 AS INT) AS y")
    intervals = ("id", f"CAST(hash(id, 1) % {domain} AS INT) AS lo", "CAST(hash(id, 2) % 9000 AS INT) AS length")
    session.range(0, POINTS, 1, FILES).selectExpr(*points).write.parquet(str(folder / "p"))
    ends = session.range(0, INTERVALS, 1, FILES).selectExpr(*intervals).selectExpr("id", "lo", "lo + length AS hi")
    ends.write.parquet(str(folder / "i"))
    for name in "pi":
        session.read.parquet(str(folder / name)).createOrReplaceTempView(name)


def _killed(cluster: Cluster, session: SparkSession, text: str) -> str:
    """Compare a digest of the rows with plain Spark's; the worker is killed once a task of a second stage ended."""
    session.conf.set("spark.sql.shuffle.partitions", str(FILES))
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    wanted = _digest(session.sql(text))
    plan = optimizer(session).plan(text)
    try:
        found = _while_running(cluster, session, lambda: _digest(plan.run()))
    except Exception as error:  # noqa: BLE001 - of Spark
        return first_line(error)
    if isinstance(found, str):
        return found
    return word(plan.rewritten) if found == wanted else f"other rows: {found} for {wanted}"


def _digest(frame: DataFrame) -> tuple[Any, ...]:
    """The number of rows, and the sum of their hashes."""
    first = frame.selectExpr("count(*)", "sum(CAST(xxhash64(*) AS DECIMAL(38, 0)))").first()
    assert first is not None
    return tuple(first)


def _while_running(cluster: Cluster, session: SparkSession, run: Callable[[], Any]) -> Any:
    """Run a query, and kill a worker in the middle; a sentence if the query ended before."""
    context, group = session.sparkContext, "killed"

    def in_group() -> Any:
        context.setJobGroup(group, "a worker is killed")
        return run()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(in_group)
        until(lambda: running.done() or _in_the_middle(session, group))
        if running.done():
            return "the query ended before a worker was killed"
        cluster.kill_worker()
        found = running.result()
    lost = until(lambda: len(executors(session)) < WORKERS, 30)
    cluster.add_worker()
    assert until(lambda: len(executors(session)) == WORKERS), "no executor on the new worker"
    return found if lost else "no executor was lost"


def _in_the_middle(session: SparkSession, group: str) -> bool:
    """Whether one stage of a query has ended, and another one has ended tasks and others to do."""
    tracker = session.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    ended = [stage for stage in stages if stage and stage.numCompletedTasks == stage.numTasks]
    begun = [stage for stage in stages if stage and 0 < stage.numCompletedTasks < stage.numTasks]
    return bool(ended and begun)


def _stream(cluster: Cluster, session: SparkSession, folder: Path) -> str:
    """Join two streams of files, a file each an epoch, and kill a worker in a task after the second epoch."""
    for number, name in enumerate("ab"):
        columns = ("id", f"CAST((id + {number}) % 50 AS INT) AS k", "CAST(id * 7 % 1000 AS INT) AS x")
        frame = session.range(0, 3000, 1, EPOCHS).selectExpr(*columns)
        frame.write.parquet(str(folder / name))
        session.read.parquet(str(folder / name)).createOrReplaceTempView(f"{name}_rows")
        reader = session.readStream.schema(frame.schema).option("maxFilesPerTrigger", "1")
        reader.parquet(str(folder / name)).createOrReplaceTempView(f"{name}_stream")
    sink = Sink("parquet", folder / "out")
    query = optimizer(session).stream(
        STREAMS.format("_stream"), checkpoint=folder / "checkpoint", sink=sink, trigger="available now"
    )

    def in_an_epoch() -> bool:
        tracker = session.sparkContext.statusTracker()
        active = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return len(query.recentProgress) >= 2 and any(stage and stage.numActiveTasks for stage in active)

    until(lambda: not query.isActive or in_an_epoch())
    if not query.isActive:
        return "the stream ended before a worker was killed"
    cluster.kill_worker()
    query.awaitTermination()
    found = rows(session.read.parquet(str(folder / "out")))
    wanted = rows(session.sql(STREAMS.format("_rows")))
    return REWRITTEN if found == wanted else f"other rows: {len(found - wanted)} for {len(wanted - found)}"
