"""Measures computed sides: the cost of finding the lengths of intervals that a query computes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import harness
from dovetail import Optimizer, Options

if TYPE_CHECKING:
    from benchmarks.band_join.bench import Bench

TITLE = "Computed sides: intervals made by GROUP BY, a join, or an expression, joined with points"
SESSIONS = "SELECT u, s, min(t) AS lo, max(t) AS hi, count(*) AS w FROM events GROUP BY u, s"
JOINED = (
    "SELECT e.u, e.t AS lo, e.t + d.length AS hi, e.s AS w FROM events e JOIN lengths d ON e.u = d.u WHERE e.s % 5 = 0"
)
PARSED = (
    "SELECT t AS lo, t + CAST(regexp_extract(note, 'length=([0-9]+)', 1) AS INT) AS hi, s AS w "
    "FROM events WHERE s % 5 = 0"
)
POINTS = "SELECT count(*), sum(p.v * i.w) FROM points p JOIN ({side}) i ON p.x BETWEEN i.lo AND i.hi"
UNMEASURED = "not measured"  # it compares every pair where no length is known: of sessions, for hours
WAYS = {
    "ours": Options(),
    "measured whole": Options(force=True),
    UNMEASURED: Options(measure_lengths=False),
}


def measure(bench: Bench) -> None:
    """Time each query with its planning, by optimizers that have not seen it before."""
    rows = 60_000 if bench.quick else 600_000
    spark = bench.spark
    users = rows // 20
    at = f"CAST(id % {users} * 1000 + pmod(xxhash64(id), 60000) AS BIGINT)"
    note = "concat('a=1;length=', pmod(xxhash64(id, 1), 900))"
    events = f"SELECT id % {users} AS u, id % 7 AS s, {at} AS t, {note} AS note FROM range({rows})"
    points = f"SELECT id, CAST(pmod(xxhash64(id), {50 * rows}) AS BIGINT) AS x, id % 10 AS v FROM range({rows // 3})"
    lengths = f"SELECT id AS u, CAST(pmod(xxhash64(id), 900) AS BIGINT) AS length FROM range({rows // 20})"
    for name, query in (("events", events), ("points", points), ("lengths", lengths)):
        path = str(bench.scratch / f"computed_{name}")
        spark.sql(query).write.mode("overwrite").parquet(path)
        spark.read.parquet(path).createOrReplaceTempView(name)
    found = []
    sides = (
        ("GROUP BY", SESSIONS, WAYS.keys() - {UNMEASURED}),
        ("join", JOINED, WAYS),
        ("regexp in a bound", PARSED, WAYS),
    )
    for title, side, taken in sides:
        text = POINTS.format(side=side)
        answers: dict[str, list[object]] = {}

        def once(way: str, text: str = text, answers: dict[str, list[object]] = answers) -> None:
            answers[way] = list(map(tuple, Optimizer(spark, WAYS[way]).sql(text).collect()))

        ways = {way: partial(once, way) for way in WAYS if way in taken}
        times = harness.in_turn(ways, warm_up=1, rounds=1 if bench.quick else 3)
        assert len({repr(answer) for answer in answers.values()}) == 1, answers
        best = {way: min(seconds) for way, seconds in times.items()}
        shown = (f"{best[way]:.2f} s" if way in best else "" for way in WAYS)
        harness.console.print(title, times, highlight=False)
        found.append((title, *shown, f"{best['ours'] / min(best.values()):.2f}"))
    bench.report.table("Seconds, planning included", ("intervals by", *WAYS, "ours to the best"), found)
