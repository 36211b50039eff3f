"""An epoch of 10,000 rows against a large state, and how long a restart takes with it."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.streams.bench import Bench

TITLE = "Small epochs against large states, and restarts"
ROWS = 10_000
EPOCHS = 6
QUERIES = {
    "key and band": "a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 1 SECOND AND b.ts + INTERVAL 1 SECOND",
    "band": "a.ts BETWEEN b.ts - INTERVAL 1 MILLISECOND AND b.ts + INTERVAL 1 MILLISECOND",
    "key": "a.k = b.k",
}
TARGET, RESTART = 2, 10


def measure(bench: Bench) -> None:
    """State of so many rows, which the watermark lets stay; then small epochs, after a restart."""
    sizes = [2_000, 20_000] if bench.quick else [100_000, 1_000_000, 10_000_000]
    cells = []
    for name, condition in QUERIES.items():
        text = f"SELECT a.id, b.id AS bid FROM s a JOIN s b ON {condition}"
        first: dict[int, float] = {}
        for size in sizes:
            loads = max(1, size // 1_000_000)
            span = size / loads / 1742
            label = f"{name.replace(' ', '-')}-{size}"
            stream = {"s": bench.events(label, loads, size // loads, span=span, keys=size)}
            loaded = bench.run(bench.session(stream, "9 days"), text)
            small = ROWS / 1742
            done = int(size / 1742 / small) + 1
            bench.events(label, EPOCHS, ROWS, span=small, keys=size, first=done)
            again = bench.run(bench.session(stream, "9 days"), text, folder=loaded.folder)
            epoch = median(again.epochs[1:])
            first[size] = epoch
            start = again.seconds - sum(again.epochs[1:])
            ratio = epoch / first[sizes[0]]
            judged = f"{ratio:.2f}×"
            if size == sizes[-1]:
                growth = epoch / first[sizes[-2]]
                judged = bench.report.judged(f"{judged} ({growth:.2f}× the one before)", growth <= TARGET)
            restart = f"{start:.1f}"
            if size == sizes[-1]:
                restart = bench.report.judged(restart, start <= RESTART)
            cells.append((f"{name}: {size:,}", f"{epoch:.2f}", judged, restart, f"{again.kept:,}", f"{again.bytes:,}"))
    bench.report.table(
        f"Epochs of {ROWS:,} rows; targets: ten times the state ≤ {TARGET} × the time, a restart ≤ {RESTART} s",
        ("condition, rows of state", "seconds of an epoch", "÷ least state", "restart", "rows kept", "bytes kept"),
        cells,
    )
    bench.report.note(
        f"A stream joined with itself; nothing leaves the state. Median of {EPOCHS - 1} epochs. Restart: from the call "
        "to the end of the first of them, in a JVM that is warm."
    )
