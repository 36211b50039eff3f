"""What operators shuffle, and the memory of their tasks, against formulas: docs/scale.md explains these.

Each shape runs at several sizes without broadcasts.  Spark counts the rows and bytes that its exchanges write, and the
most memory that one task holds in sorts and hash tables.  Times are no part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks import harness
from dovetail import Optimizer, Options
from tests.tpc import data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM, VERSION = "scale", 1  # count up when a table below changes
SIZES, QUICK_SIZES = (100_000, 300_000, 1_000_000), (10_000, 30_000)
PARTITIONS = 16
SETTINGS = {
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",  # tasks keep their number, and exchanges theirs
    "spark.memory.offHeap.enabled": "false",
}


@dataclass(frozen=True)
class Shape:
    """A query of ``p`` and ``i``; how many rows it shuffles for each row of ``p`` and of ``i``, by the formula."""

    text: str
    formula: str
    of_p: float
    of_i: float


def _counts(join: str, right: str = "i.w", /) -> str:
    return f"SELECT count(*), sum(p.v), sum({right}) FROM {join}"


_BAND = "p.x BETWEEN i.lo AND i.hi"
_OR = "p.a = i.a OR p.b = i.b"
_LAST = "SELECT count(*), sum(v), sum(w) FROM (SELECT p.id, p.v, i.w, row_number() OVER (PARTITION BY p.id ORDER BY i.lo DESC) AS n FROM p LEFT JOIN i ON {}i.lo <= p.x) WHERE n = 1"  # fmt: skip  # noqa: E501
SHAPES = {
    "band, one width": Shape(_counts("p JOIN i ON p.x BETWEEN i.lo - 1000 AND i.lo + 1000"), "p + 2 i", 1, 2),
    "band, LEFT, p preserved": Shape(_counts(f"p LEFT JOIN i ON {_BAND}"), "p + 2 i", 1, 2),
    "band": Shape(_counts(f"p JOIN i ON {_BAND}"), "p + 2 i", 1, 2),
    "band and key": Shape(_counts(f"p JOIN i ON p.k = i.k AND {_BAND}"), "p + 2 i", 1, 2),
    "band, SEMI, p preserved": Shape(f"SELECT count(*), sum(p.v) FROM p LEFT SEMI JOIN i ON {_BAND}", "p + 2 i", 1, 2),
    "band, i preserved": Shape(_counts(f"i LEFT JOIN p ON {_BAND}"), "2 p + i", 2, 1),
    "OR of two keys": Shape(_counts(f"p JOIN i ON {_OR}"), "2 p + 2 i", 2, 2),
    "IN of two columns": Shape(_counts("p JOIN i ON p.a IN (i.a, i.b)"), "p + 2 i", 1, 2),
    "arrays of three": Shape(_counts("p JOIN i ON arrays_overlap(p.items, i.items)"), "3 p + 3 i", 3, 3),
    "OR of two keys, LEFT": Shape(_counts(f"p LEFT JOIN i ON {_OR}"), "twice, and matches", 3, 4),
    "last row before, by key": Shape(_LAST.format("i.k = p.k AND "), "2 p + i", 2, 1),
    "last row before": Shape(_LAST.format(""), "p + i", 1, 1),
}


def tables(rows: int) -> dict[str, str]:
    """The query of each table: ``i`` has a fifth of the rows; a row has a few matches whatever the size."""
    few, line = rows // 5, 1000 * rows // 5

    def draw(number: int, below: int) -> str:
        return f"pmod(xxhash64(id, {number}), {below})"

    def side(seed: int) -> str:
        items = ", ".join(draw(seed + n, 3 * rows) for n in (3, 4, 5))
        columns = (f"{draw(seed, 1000)} AS k", f"{draw(seed + 1, rows)} AS a", f"{draw(seed + 2, rows)} AS b")
        return f"{', '.join(columns)}, array({items}) AS items"

    low = draw(1, line)
    return {
        "p": f"SELECT id, {draw(0, line)} AS x, id % 100 AS v, {side(10)} FROM range({rows})",
        "i": f"SELECT id, {low} AS lo, {low} + {draw(2, 2000)} AS hi, id % 100 AS w, {side(20)} FROM range({few})",
    }


@dataclass(frozen=True)
class Shuffled:
    """What the stages of a query wrote to shuffles, and the most memory of a task."""

    rows: int
    bytes: int
    memory: int
    spilled: int


def shuffled(spark: SparkSession, work: Callable[[], object]) -> Shuffled:
    """Run ``work``, and read what Spark counted."""
    context: Any = spark.sparkContext
    context.setJobGroup(PROGRAM, PROGRAM)
    before = set(context.statusTracker().getJobIdsForGroup(PROGRAM))
    work()
    context._jsc.sc().listenerBus().waitUntilEmpty(60_000)
    store, rows, size, memory, spilled = context._jsc.sc().statusStore(), 0, 0, 0, 0
    for job in set(context.statusTracker().getJobIdsForGroup(PROGRAM)) - before:
        for stage in context.statusTracker().getJobInfo(job).stageIds:
            one = store.lastStageAttempt(stage)
            if str(one.status()) != "COMPLETE":
                continue
            rows, size = rows + one.shuffleWriteRecords(), size + one.shuffleWriteBytes()
            spilled += one.memoryBytesSpilled()
            tasks = store.taskList(stage, one.attemptId(), 10_000)
            each = [tasks.apply(n).taskMetrics() for n in range(tasks.size())]
            memory = max([memory, *(task.get().peakExecutionMemory() for task in each if task.isDefined())])
    return Shuffled(rows, size, memory, spilled)


def line(spark: SparkSession, name: str, rows: int) -> tuple[str, ...]:
    """A line of the table."""
    shape = SHAPES[name]
    plan = Optimizer(spark, Options(force=True)).plan(shape.text)
    found = shuffled(spark, lambda: plan.run().collect())
    wanted = shape.of_p * rows + shape.of_i * (rows // 5)
    operator = next((word for word in plan.explain().replace("(", " ").split() if word.endswith(OPERATORS)), "–")
    figures = (
        shape.formula,
        f"{wanted:,.0f}",
        f"{found.rows:,}",
        f"{found.rows / wanted:.2f}",
        f"{found.bytes / max(found.rows, 1):.0f}",
        f"{found.memory / 2**20:.1f}",
        f"{found.spilled / 2**20:.0f}",
    )
    harness.console.print(name, operator, f"{rows:,}", *figures, highlight=False)
    return name, operator, f"{rows:,}", *figures


OPERATORS = ("BandJoin", "KeyJoin", "NearestJoin", "BandAggregate")


def main() -> None:
    args = harness.arguments(PROGRAM, __doc__ or "", parts=tuple(SHAPES))
    report = harness.Report(PROGRAM, "Rows and bytes that operators shuffle", args.quick)
    columns = ("shape", "operator", "rows of p", "formula", "predicted", "rows shuffled", "ratio", "bytes a row", "MiB of a task", "MiB spilled")  # fmt: skip  # noqa: E501
    with harness.session(PROGRAM, SETTINGS) as spark:
        lines = []
        for rows in QUICK_SIZES if args.quick else SIZES:
            for name, query in tables(rows).items():
                target = data.home() / PROGRAM / f"v{VERSION}" / f"{name}-{rows}"
                harness.keep(spark.sql(query), target)
                spark.read.parquet(str(target)).createOrReplaceTempView(name)
            lines += [line(spark, name, rows) for name in args.parts or SHAPES]
        report.table(f"p, and i with a fifth of its rows, in {PARTITIONS} partitions", columns, lines)
        if not args.parts:
            report.write(spark)


if __name__ == "__main__":
    main()
