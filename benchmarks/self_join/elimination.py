"""Self-joins on a unique key: against the query that reads the table once, as a person would write it."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks import harness
from benchmarks.self_join.bench import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.self_join.bench import Bench

TITLE = "Self-joins on a unique key ÷ one scan"
ROUNDS = 11
MOST = 1.1

SUMS = "SELECT k, count(*) AS n, max(v) AS most FROM accounts GROUP BY k"
THREE = """
SELECT x.k, sum(y.v), max(z.w)
FROM accounts x JOIN accounts y ON x.id = y.id JOIN accounts z ON y.id = z.id
GROUP BY x.k
"""
# The query as a self-join, and as one scan.
QUERIES = (
    (
        "inner",
        "SELECT x.id, x.v, y.w FROM accounts x JOIN accounts y ON x.id = y.id WHERE y.v > 100",
        "SELECT id, v, w FROM accounts WHERE id IS NOT NULL AND v > 100",
    ),
    (
        "left",
        "SELECT x.id, x.v, y.w FROM accounts x LEFT JOIN accounts y ON x.id = y.id AND y.v > 900",
        "SELECT id, v, if(v > 900, w, NULL) AS w FROM accounts",
    ),
    (
        "three, aggregated",
        THREE,
        "SELECT k, sum(v), max(w) FROM accounts WHERE id IS NOT NULL GROUP BY k",
    ),
    (
        "grouped",
        f"WITH s AS ({SUMS}) SELECT x.k, x.n, y.most FROM s x JOIN s y ON x.k = y.k",
        f"SELECT * FROM ({SUMS}) WHERE k IS NOT NULL",
    ),
)


def measure(bench: Bench) -> None:
    """Accounts with a key, eight million of them."""
    rows = 100_000 if bench.quick else 8_000_000
    items = "id, id * 7919 % 1000003 AS k, id * 31 % 1000 AS v, CAST(id % 97 AS DOUBLE) AS w"
    bench.table("accounts", f"SELECT {items} FROM range({rows})")
    bench.optimizer.declare_key("accounts", ["id"])
    found = [(name, bench.compare(text), one_scan(bench, text, by_hand)) for name, text, by_hand in QUERIES]
    cells = [(name, f"{ratio:.2f}", *result.cells) for name, result, ratio in found]
    bench.report.table(f"{rows:,} rows", ("query", "÷ one scan", *COLUMNS), cells)
    worst = max(ratio for _, _, ratio in found)
    figure = bench.report.judged(f"{worst:.2f}", worst <= MOST)
    bench.report.note(
        f"{harness.medians(bench.rounds)}; ÷ one scan: of {ROUNDS}, both in turn, planning included. "
        f"Time ÷ one scan is at most {figure}; the target is {MOST}."
    )


def one_scan(bench: Bench, text: str, by_hand: str) -> float:
    """The time of a query through the optimizer, planning included, ÷ the time of what a person would write."""
    ways: dict[str, Callable[[], object]] = {
        "ours": lambda: harness.run(bench.optimizer.sql(text)),
        "by hand": lambda: harness.run(bench.spark.sql(by_hand)),
    }
    times = harness.in_turn(ways, warm_up=1 if bench.quick else 3, rounds=1 if bench.quick else ROUNDS)
    return median(times["ours"]) / median(times["by hand"])
