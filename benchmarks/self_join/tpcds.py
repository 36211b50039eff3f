"""Measures the queries of TPC-DS that the optimizer rewrites."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.self_join import tpc

if TYPE_CHECKING:
    from benchmarks.self_join.bench import Bench

TITLE = "TPC-DS: every query that is rewritten ÷ plain Spark"


def measure(bench: Bench) -> None:
    """At scale 1."""
    tpc.measure(bench, "tpcds")
