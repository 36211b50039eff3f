"""Two streams: by a key and an interval, and by an interval alone, which Spark refuses; compared with Spark's own join.

By an interval alone Spark's own join runs over bins by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.streams.bench import EVEN, ZIPF
from benchmarks.streams.ways import EPOCHS, Case, compare

if TYPE_CHECKING:
    from benchmarks.streams.bench import Bench

TITLE = "Joins of two streams"
QUERY = """SELECT c.id, v.id AS vid FROM c JOIN v
ON c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MILLISECONDS"""
# The same with an equality, as Spark's own stream-stream join takes it: v is copied to the bins that it reaches.
BY_HAND = """SELECT c.id, v.id AS vid
FROM (SELECT id, ts, floor(unix_micros(ts) / 10000) AS bin FROM c) c
JOIN (SELECT id, ts, explode(sequence(floor(unix_micros(ts) / 10000), floor((unix_micros(ts) + 10000) / 10000))) AS bin
      FROM v) v
ON c.bin = v.bin AND c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MILLISECONDS"""
KEYED = """SELECT c.id, v.id AS vid FROM c JOIN v
ON c.k = v.k AND c.ts BETWEEN v.ts AND v.ts + INTERVAL 1 SECOND"""


def measure(bench: Bench) -> None:
    """A band alone, with few rows and many; a key and a band, with even and Zipf keys."""
    rows = 2_000 if bench.quick else 20_000
    cases = [] if bench.quick else [_case(bench, "a band, few rows", 500, 57.4, target=1)]
    cases.append(_case(bench, "a band, four matches", rows, 57.4))
    if bench.long:
        cases.append(_case(bench, "a band, one match", rows, 200.0))
    cases.append(_case(bench, "even keys and a band", rows, 57.4, key=EVEN))
    if not bench.quick:
        cases.append(_case(bench, "Zipf keys and a band", 10_000, 57.4, key=ZIPF, target=5))
    compare(bench, _case(bench, "warm-up", 1_000, 57.4), cases)
    bench.report.note(
        "Rows are those of either stream. Spark refuses a band without an equality; by hand it gets bins of 10 ms."
    )


def _case(bench: Bench, name: str, rows: int, span: float, *, key: str = "", target: float = 1.5) -> Case:
    streams = {}
    for n, stream in enumerate("cv"):
        keys = (key or EVEN).format(keys="{keys}", seed=f"{{seed}} + {5000 * n}")
        streams[stream] = bench.events(f"{stream} {name}", EPOCHS, rows, span=span, keys=20_000, key=keys)
    return Case(name, streams, rows, KEYED, target) if key else Case(name, streams, rows, QUERY, target, BY_HAND)
