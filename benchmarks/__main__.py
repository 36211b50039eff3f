"""Run every benchmark, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

PROGRAMS = (
    "planning", "first_plans", "again", "tpch", "band_join", "keys", "self_join", "nearest", "lookup", "streams",
    "event_logs", "estimates", "savings", "small_gains", "programs", "skew", "nearest_ranges", "executors", "scale",
    "sail", "engines",
)  # fmt: skip


def main() -> None:
    for program in PROGRAMS:
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{program}", *sys.argv[1:]], check=False)
        if done.returncode:
            sys.exit(done.returncode)


if __name__ == "__main__":
    main()
