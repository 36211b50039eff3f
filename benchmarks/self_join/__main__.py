"""The command line: runs the named parts, and writes their tables."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import harness
from benchmarks.self_join import __doc__ as purpose
from benchmarks.self_join import band_window, elimination, exchange, tpcds, tpch
from benchmarks.self_join.bench import Bench

PROGRAM = "self_join"
PARTS = {
    "elimination": elimination,
    "tpch": tpch,
    "tpcds": tpcds,
    "exchange": exchange,
    "band_window": band_window,
}
PACKAGES = ("duckdb",)
# Threads of their own read Parquet otherwise, and Spark counts the bytes of its tasks' threads only.
SETTINGS = {"spark.hadoop.parquet.hadoop.vectored.io.enabled": "false"}


def main() -> None:
    args = harness.arguments(PROGRAM, purpose or "", tuple(PARTS))
    chosen = [part for part in PARTS if part in args.parts] or list(PARTS)
    with harness.session(PROGRAM, SETTINGS) as spark, tempfile.TemporaryDirectory(prefix="dovetail-") as scratch:
        for part in chosen:
            report = harness.Report(PROGRAM, PARTS[part].TITLE, args.quick, part, PACKAGES)
            # A session of its own: both suites of TPC have a table `customer`.
            PARTS[part].measure(Bench(spark.newSession(), report, Path(scratch), args.quick, args.long))
            report.write(spark)
    if not args.quick:
        write_index()


def write_index() -> None:
    """List the parts that have been measured."""
    lines = ["# Self-joins", ""]
    for part, module in PARTS.items():
        if (harness.RESULTS / f"{PROGRAM}_{part}.md").is_file():
            lines.append(f"- [{part}]({PROGRAM}_{part}.md): {module.TITLE}")
    (harness.RESULTS / f"{PROGRAM}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
