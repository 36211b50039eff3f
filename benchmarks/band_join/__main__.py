"""The command line: runs the named parts, and writes their tables."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import harness
from benchmarks.band_join import __doc__ as purpose
from benchmarks.band_join import computed, engines, growth, hand, memory, plain, shapes
from benchmarks.band_join.bench import Bench

PROGRAM = "band_join"
PARTS = {
    "hand": hand,
    "plain": plain,
    "shapes": shapes,
    "duckdb": engines,
    "growth": growth,
    "memory": memory,
    "computed": computed,
}
PACKAGES = ("duckdb", "polars")


def main() -> None:
    args = harness.arguments(PROGRAM, purpose or "", tuple(PARTS))
    chosen = [part for part in PARTS if part in args.parts] or list(PARTS)
    with harness.session(PROGRAM) as spark, tempfile.TemporaryDirectory(prefix="dovetail-") as scratch:
        for part in chosen:
            report = harness.Report(PROGRAM, PARTS[part].TITLE, args.quick, part, PACKAGES)
            PARTS[part].measure(Bench(spark, report, Path(scratch), args.quick, args.long))
            report.write(spark)
    if not args.quick:
        write_index()


def write_index() -> None:
    """List the parts that have been measured."""
    lines = ["# Band joins", ""]
    for part, module in PARTS.items():
        if (harness.RESULTS / f"{PROGRAM}_{part}.md").is_file():
            lines.append(f"- [{part}]({PROGRAM}_{part}.md): {module.TITLE}")
    (harness.RESULTS / f"{PROGRAM}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
