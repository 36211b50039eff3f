"""Two streams joined by a band of times and no equality, which Spark refuses: state modules, and bins by hand."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.streams.bench import Bench, Done

TITLE = "Band join of two streams without an equality"
QUERY = """SELECT c.id, v.id AS vid FROM c JOIN v
ON c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MILLISECONDS"""
# The same with an equality, as Spark's own stream-stream join takes it: v is copied to the bins that it reaches.
BY_HAND = """SELECT c.id, v.id AS vid
FROM (SELECT id, ts, floor(unix_micros(ts) / {bin}) AS bin FROM c) c
JOIN (SELECT id, ts, explode(sequence(floor(unix_micros(ts) / {bin}), floor((unix_micros(ts) + 10000) / {bin}))) AS bin
      FROM v) v
ON c.bin = v.bin AND c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MILLISECONDS"""
TARGET = 3


def measure(bench: Bench) -> None:
    """Both ways in turn, where a row has few matches and where it has many; they return the same rows."""
    rows = 2_000 if bench.quick else 50_000
    for matches, span in (("one match", 500.0), ("nine matches", 57.4)):
        _measure(bench, rows, span, matches)
    bench.report.note(
        "Spark refuses the query as it stands. By hand: bins of 10 ms as the equality, and Spark's own "
        "join with RocksDB. After one run of the whole stream that is not counted."
    )


def _measure(bench: Bench, rows: int, span: float, matches: str) -> None:
    streams = {n: bench.events(f"{n}{span:.0f}", 5, rows, span=span, keys=10) for n in "cv"}
    ways = {"state modules": QUERY, "bins by hand, Spark's join": BY_HAND.format(bin=10_000)}
    found: dict[str, list[Done]] = {way: [] for way in ways}
    for _ in range(2 if bench.quick or span < 100 else 3):
        for way, text in ways.items():
            ours = way == "state modules"
            session = bench.session(streams, "10 seconds", "" if ours else "RocksDB")
            found[way].append(bench.run(session, text, ours=ours))
    if len({done.rows for runs in found.values() for done in runs}) != 1:
        raise AssertionError("the ways differ in their rows")
    times = {way: median(d.seconds for d in runs[1:]) for way, runs in found.items()}
    mine = times["state modules"]
    cells = []
    for way, runs in found.items():
        ratio = times[way] / mine
        faster = "" if way == "state modules" else bench.report.judged(f"{ratio:.2f}×", ratio >= TARGET)
        last = runs[-1]
        speed = f"{10 * rows / times[way]:,.0f}"
        cells.append((way, f"{times[way]:.2f}", speed, f"{last.rows:,}", faster, f"{last.kept:,}", f"{last.bytes:,}"))
    bench.report.table(
        f"5 epochs of {rows:,} rows on either side, {matches} a row; target: ≥ {TARGET} × the native form",
        ("way", "seconds", "rows a second", "rows out", "faster than", "rows kept", "bytes kept"),
        cells,
    )
