"""Measures the first plan of a rewritten statement: in a process that has just started, and in one that is warm.

A child process starts Spark and plans each statement three times: at once (cold: Python imports, the JVM compiles,
small queries measure the data), with another optimizer after all statements were planned (warm: only the small queries
are left), and again with the same optimizer (again: from its caches).  What is timed is ``opt.plan``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks import harness
from dovetail import Optimizer
from dovetail.optimizer.demo import QUERY, QUICK, make_data

TITLE = "First plans: a rewritten statement in a new process, in a warm one, and again"
STATEMENTS = {
    "band join": QUERY,
    "nearest rows": "SELECT e.event_id, s.device FROM events e LEFT ASOF JOIN sessions s "
    "MATCH_CONDITION (e.ts >= s.start) ON e.event_id % 100 = s.session_id % 100",
    "window": "SELECT x.event_id, (SELECT count(*) FROM events y WHERE y.kind = x.kind "
    "AND y.ts BETWEEN x.ts - INTERVAL 1 HOUR AND x.ts) AS n FROM events x",
}


def main() -> None:
    """Run the children one after the other, and write the medians."""
    args = harness.arguments("first_plans", __doc__ or "")
    rounds = 1 if args.quick else 5
    report = harness.Report("first_plans", TITLE, args.quick)
    with TemporaryDirectory() as folder:
        found = [_child(folder) for _ in range(rounds)]
    times = [
        (name, *(f"{median(one[name][way] for one in found) * 1000:,.0f} ms" for way in ("cold", "warm", "again")))
        for name in STATEMENTS
    ]
    report.table("Seconds of opt.plan", ("statement", "cold", "warm", "again"), times)
    report.note(f"Medians of {rounds} processes; the statements are planned in the order of the table.")
    with harness.session("first_plans") as spark:
        report.write(spark)


def _child(folder: str) -> dict[str, dict[str, float]]:
    command = [sys.executable, "-m", "benchmarks.first_plans", "--child", folder]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measure(folder: str) -> None:
    """Plan in this process, and print the seconds as JSON."""
    with harness.session("first_plans") as spark:
        made, _ = make_data(spark, Path(folder), QUICK)
        for name in ("events", "sessions"):
            spark.read.parquet(str(made / name)).createOrReplaceTempView(name)
        opt, other = (Optimizer(spark) for _ in range(2))
        times: dict[str, dict[str, float]] = {name: {} for name in STATEMENTS}
        for way, planner in (("cold", opt), ("warm", other), ("again", other)):
            for name, text in STATEMENTS.items():
                start = perf_counter()
                plan = planner.plan(text)
                times[name][way] = perf_counter() - start
                if not plan.rewritten:
                    raise RuntimeError(f"{name} is not rewritten: {plan.declined}")
    print(json.dumps(times))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _measure(sys.argv[2])
    else:
        main()
