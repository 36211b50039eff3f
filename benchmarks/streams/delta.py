"""Inner joins of four streams compared with Spark's cascade of joins, and small epochs of them against large states."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.streams.bench import EVEN, OURS, SPARK

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.streams.bench import Bench, Done

TITLE = "Delta joins of four streams"
STREAMS = "abcd"
SELECT = "SELECT a.id, b.id AS bid, c.id AS cid, d.id AS did FROM a JOIN b ON {} JOIN c ON {} JOIN d ON {}"
QUERIES = {  # with how many keys for each row of a stream
    "keys of their own, one match": (SELECT.format("a.k = b.id", "c.k = a.id", "d.k = a.id"), 1.0),
    "one key, two rows a stream": (SELECT.format("a.k = b.k", "b.k = c.k", "c.k = d.k"), 0.5),
}
FILES = 4
ROWS, EPOCHS = 10_000, 6
STATE_TARGET, GROWTH_TARGET = 0.6, 2


def measure(bench: Bench) -> None:
    """What is kept, then how epochs grow with it."""
    _measure_state(bench)
    _growth(bench)


def _measure_state(bench: Bench) -> None:
    rows = 500 if bench.quick else 20_000
    cells: list[tuple[str, ...]] = []
    for number, (name, (text, keys)) in enumerate(QUERIES.items()):
        streams = _streams(bench, f"kept{number}", FILES, rows, int(FILES * rows * keys))
        ways = {"delta join": OURS, **{way.replace("Spark", "cascade"): way for way in SPARK}}
        found: dict[str, Done] = {}
        for label, way in ways.items():
            for _ in range(2 if bench.long else 1):
                if done := bench.run_way(way, streams, text):
                    found[label] = done
        if len({done.rows for done in found.values()}) != 1:
            raise AssertionError("the ways differ in their rows")
        ours = found["delta join"]
        for way, done in found.items():
            kept, size, faster = f"{done.kept:,}", f"{done.bytes:,}", ""
            if way != "delta join":
                part, bytes_ = ours.kept / max(1, done.kept), ours.bytes / max(1, done.bytes)
                if done.kept:
                    kept += bench.report.judged(f" (ours {part:.2f} of it)", part <= STATE_TARGET)
                size += bench.report.judged(f" (ours {bytes_:.2f} of it)", bytes_ <= STATE_TARGET)
                faster = f"{done.seconds / ours.seconds:.2f}×"
            cells.append((f"{name}: {way}", f"{done.seconds:.2f}", faster, f"{done.rows:,}", kept, size))
    bench.report.table(
        f"{FILES} epochs of {rows:,} rows of each stream; target: ≤ {STATE_TARGET} of the cascade's state",
        ("join, way", "seconds", "faster than", "rows out", "rows kept", "bytes kept"),
        cells,
    )
    bench.report.note(
        "Nothing leaves the state. Cascade: Spark's own stream-stream joins, which keep each of their inputs, so also "
        "the results of the first two. Bytes: of the state's files, of RocksDB's SST files, of Spark's "
        "store in memory. Each way runs once, so the first of all pays for the warm-up; twice with `--long`. With "
        "one match a row each of the two results has as many rows as a stream, so that four parts of six are left, "
        "0.67; a row of a result is wider than one of a stream, which the bytes show."
    )


def _growth(bench: Bench) -> None:
    sizes = [4_000, 40_000] if bench.quick else [1_000_000, 10_000_000]
    cells = []
    text, _ = QUERIES["keys of their own, one match"]
    first = 0.0
    for size in sizes:
        each, small = size // len(STREAMS), ROWS // len(STREAMS)
        loads = max(1, each // 1_250_000)
        streams = _streams(bench, f"grown{size}", loads, each // loads, each)
        loaded = bench.run(bench.session(streams, "9 days"), text)
        _streams(bench, f"grown{size}", EPOCHS, small, each, first=each // small + 1)
        again = bench.run(bench.session(streams, "9 days"), text, folder=loaded.folder)
        epoch = median(again.epochs[1:])
        first = first or epoch
        ratio = epoch / first
        judged = f"{ratio:.2f}×"
        if size == sizes[-1]:
            judged = bench.report.judged(judged, ratio <= GROWTH_TARGET)
        start = again.seconds - sum(again.epochs[1:])
        cells.append((f"{size:,}", f"{epoch:.2f}", judged, f"{start:.1f}", f"{again.kept:,}", f"{again.bytes:,}"))
    bench.report.table(
        f"Epochs of {ROWS:,} rows over four streams; target: ten times the state ≤ {GROWTH_TARGET} × the time",
        ("rows of state", "seconds of an epoch", "÷ least state", "restart", "rows kept", "bytes kept"),
        cells,
    )
    bench.report.note(
        "Keys of their own. Of the four paths those of c and d look up the others; new rows of a and b have ids that "
        "no key names yet, as the ranges of the segments show, so that their paths open nothing. "
        f"Median of {EPOCHS - 1} epochs. Restart: from the call to the end of the first of them, in a JVM that is warm."
    )


def _streams(bench: Bench, name: str, files: int, rows: int, keys: int, first: int = 0) -> dict[str, Path]:
    """Files of so many rows, each stream with keys of its own."""
    made = {}
    for number, stream in enumerate(STREAMS):
        key = EVEN.format(keys="{keys}", seed=f"{{seed}} + {10_000 * number}")
        made[stream] = bench.events(f"{name}{stream}", files, rows, span=rows / 1742, keys=keys, key=key, first=first)
    return made
