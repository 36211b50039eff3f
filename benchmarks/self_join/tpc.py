"""The queries of TPC-H or TPC-DS that the optimizer rewrites, each compared with plain Spark."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from benchmarks import harness
from benchmarks.self_join.bench import COLUMNS, Result
from tests.tpc import data

if TYPE_CHECKING:
    from benchmarks.self_join.bench import Bench

ROUNDS = 7  # queries of a second need more rounds than others to be distinguishable from noise
SLOWER = 0.97  # a query below it has lost more than the noise of a pair


def measure(bench: Bench, suite: str) -> None:
    """Plan all queries; run those that are rewritten."""
    scale = 0.1 if bench.quick else 1
    for path in sorted(data.generate(suite, scale).glob("*.parquet")):
        bench.view(path.stem, path)
    texts = data.queries(suite)
    plans = {query: bench.optimizer.plan(text) for query, text in texts.items()}
    touched = {query: plan for query, plan in plans.items() if plan.rewritten}
    bench.report.table(
        f"Queries that are rewritten: {len(touched)} of {len(plans)}",
        ("query", "rules"),
        [(query, ", ".join(dict.fromkeys(plan.rules))) for query, plan in touched.items()],
    )
    rounds = 1 if bench.quick else ROUNDS
    results: dict[str, Result] = {}
    for query in touched:
        with harness.console.status(query):
            results[query] = bench.compare(texts[query], duck=texts[query].replace("`", '"'), rounds=rounds)
        harness.console.print(query, *results[query].cells, highlight=False)
    bench.report.table(
        f"Rewritten queries at scale {scale:g}; before → after as Spark counted them",
        ("query", *COLUMNS),
        [(query, *result.cells) for query, result in results.items()],
    )
    add_notes(bench, suite, results, len(plans))


def add_notes(bench: Bench, suite: str, results: dict[str, Result], count: int) -> None:
    """Add notes that explain the tables."""
    if results:
        mean = prod(result.faster for result in results.values()) ** (1 / len(results))
        slower = [query for query, result in results.items() if result.faster < SLOWER]
        bench.report.note(
            f"Geometric mean of the rewritten queries: {mean:.2f}× faster. "
            f"Slower than plain Spark by more than {1 - SLOWER:.0%}: {', '.join(slower) or 'none'}."
        )
    bench.report.note(
        f"{harness.medians(1 if bench.quick else ROUNDS)} after a warm-up, all ways in turn. Times include parsing and "
        "planning, where the optimizer remembers what it has measured of the files; all go to the last row. "
        f"The other {count - len(results)} queries of {suite} are left out: Spark gets their text as written, so their "
        "ratio is 1 by construction, but for the planning (results/planning.md)."
    )
    bench.report.note(
        "Rows are compared as multisets; floating point within 10⁻⁹, a LIMIT at the end taken off, since it leaves "
        "open which of equal rows stay. A reused exchange counts once. DuckDB runs the same text on the same files."
    )
