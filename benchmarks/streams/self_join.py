"""A stream joined with itself, key and interval of one second to either side: time and state compared with Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.streams.bench import EVEN, ZIPF
from benchmarks.streams.ways import EPOCHS, Case, compare

if TYPE_CHECKING:
    from benchmarks.streams.bench import Bench

TITLE = "Self interval join of a stream beside Spark's stream-stream join"
QUERY = """SELECT a.id, b.id AS bid, a.k, a.ts FROM s a JOIN s b
ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 1 SECOND AND b.ts + INTERVAL 1 SECOND"""
KEYS = {"even": (EVEN, 1.5), "Zipf": (ZIPF, 5.0)}  # with the target


def measure(bench: Bench) -> None:
    """Few rows and many, of even keys and of Zipf keys; more with ``--long``."""
    sizes = [("even", 500), ("even", 10_000), ("even", 50_000), ("Zipf", 20_000), ("Zipf", 100_000)]
    sizes = [("even", 5_000)] if bench.quick else [*sizes, ("even", 200_000)] if bench.long else sizes
    compare(bench, _case(bench, "warm-up", 2_000), [_case(bench, name, rows) for name, rows in sizes])


def _case(bench: Bench, name: str, rows: int) -> Case:
    key, target = KEYS.get(name, (EVEN, 1.0))
    folder = bench.events(f"{name}{rows}", EPOCHS, rows, span=57.4, keys=20_000, key=key)
    return Case(f"{name} keys", {"s": folder}, rows, QUERY, target if rows >= 20_000 else 1.0)
