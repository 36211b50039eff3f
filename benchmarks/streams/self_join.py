"""A stream joined with itself, key and interval of one second to either side: time and state compared with Spark's."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.streams.bench import EVEN, ZIPF

if TYPE_CHECKING:
    from benchmarks.streams.bench import Bench, Done

TITLE = "Self interval join of a stream beside Spark's stream-stream join"
QUERY = """SELECT a.id, b.id AS bid, a.k, a.ts FROM s a JOIN s b
ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 1 SECOND AND b.ts + INTERVAL 1 SECOND"""
TARGET, STATE_TARGET = 4, 0.5


def measure(bench: Bench) -> None:
    """Uniform and Zipf keys; ten times the data with ``--long``."""
    size = 5_000 if bench.quick else 100_000
    sizes = [size, 10 * size] if bench.long else [size]
    cells = []
    for rows in sizes:
        for name, key in (("even", EVEN), ("Zipf", ZIPF)):
            if name == "Zipf" and (bench.quick or rows > size):
                continue  # minutes, of pairs that every way returns alike
            cells += _beside(bench, name, rows // 5 if name == "Zipf" else rows, key)
    bench.report.table(
        f"5 epochs, 20,000 keys; targets: ≥ {TARGET} × Spark with RocksDB, ≤ {STATE_TARGET} of its state",
        ("keys, rows an epoch, way", "seconds", "of one epoch", "rows out", "faster than", "rows kept", "bytes kept"),
        cells,
    )
    bench.report.note(
        "Each way runs the whole stream from a new checkpoint into Parquet files, in turn, after one run of the whole "
        "stream that is not counted; with Zipf keys, a fifth of the rows, and once. Faster: Spark's seconds by those "
        "of state modules. Kept: after the last epoch; for RocksDB the size of its SST files, for the store in memory "
        "what Spark reports for its own."
    )


def _beside(bench: Bench, name: str, rows: int, key: str) -> list[tuple[str, ...]]:
    folder = bench.events(f"{name}{rows}", 5, rows, span=57.4, keys=20_000, key=key)
    ways = {"state modules": "", "Spark, RocksDB": "RocksDB", "Spark, in memory": "in memory"}
    found: dict[str, list[Done]] = {way: [] for way in ways}
    once = key == ZIPF
    for _ in range(1 if once else 2 if bench.quick or rows > 200_000 else 3):
        for way, provider in ways.items():
            session = bench.session({"s": folder}, "10 seconds", provider)
            found[way].append(bench.run(session, QUERY, ours=not provider))
    rows_out = {done.rows for runs in found.values() for done in runs}
    if len(rows_out) != 1:
        raise AssertionError(f"the ways differ in their rows: {rows_out}")
    counted = {way: runs if once else runs[1:] for way, runs in found.items()}
    ours = counted["state modules"]
    mine = median(d.seconds for d in ours)
    cells: list[tuple[str, ...]] = []
    for way, runs in counted.items():
        took = median(d.seconds for d in runs)
        faster = "" if way == "state modules" else f"{took / mine:.2f}×"
        kept, size = f"{runs[-1].kept:,}", f"{runs[-1].bytes:,}"
        if way == "Spark, RocksDB":
            faster = bench.report.judged(faster, took / mine >= TARGET)
            ratio = ours[-1].kept / max(1, runs[-1].kept)
            kept += bench.report.judged(f" (ours {ratio:.2f} of it)", ratio <= STATE_TARGET)
            ratio = ours[-1].bytes / max(1, runs[-1].bytes)
            size += bench.report.judged(f" (ours {ratio:.2f} of it)", ratio <= STATE_TARGET)
        epoch = median(e for d in runs for e in d.epochs)
        label = f"{name}, {rows:,}: {way}"
        cells.append((label, f"{took:.2f}", f"{epoch:.2f}", f"{runs[-1].rows:,}", faster, kept, size))
    return cells
