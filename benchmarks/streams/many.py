"""Many small epochs: files, time and memory stay bounded."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.streams.self_join import QUERY

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.streams.bench import Bench

TITLE = "Many small epochs"
ROWS = 200


def measure(bench: Bench) -> None:
    """Epochs of a second of event time each; with a short delay, so that state lives for a few; ``--long``: 500."""
    epochs, steps = (12, 2) if bench.quick else (500, 5) if bench.long else (150, 5)
    part = epochs // steps
    cells, folder, seen = [], None, []
    for step in range(steps):
        streams = {"s": bench.events("s", part, ROWS, span=1, keys=50, first=step * part)}
        done = bench.run(bench.session(streams, "10 seconds"), QUERY, folder=folder)
        folder = done.folder
        seen.append(median(done.epochs))
        files = sum(1 for p in (folder / "checkpoint" / "dovetail").rglob("*.parquet"))
        cells.append(
            (
                f"{step * part + 1} to {(step + 1) * part}",
                f"{seen[-1]:.2f}",
                f"{done.kept:,}",
                f"{files}",
                f"{_all_files(folder / 'checkpoint' / 'dovetail')}",
                f"{_heap(bench):.0f}",
            )
        )
    bench.report.table(
        f"{epochs} epochs of {ROWS} rows; target: bounded",
        ("epochs", "seconds of one", "rows kept", "files of rows", "all files of the state", "MiB of heap"),
        cells,
    )
    bench.report.note(
        "Median seconds of an epoch; the rest at the end of each part. Heap: what the driver's JVM holds after a full "
        "collection, with all that Spark keeps of finished queries."
    )


def _all_files(folder: Path) -> int:
    return sum(1 for p in folder.rglob("*") if p.is_file())


def _heap(bench: Bench) -> float:
    jvm: Any = bench.spark._jvm
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20
