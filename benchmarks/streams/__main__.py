"""The command line: runs the named parts, and writes their tables."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import harness
from benchmarks.streams import __doc__ as purpose
from benchmarks.streams import (
    band,
    delta,
    epoch,
    flink,
    flink_cascade,
    growth,
    many,
    materialized,
    order,
    self_join,
    together,
)
from benchmarks.streams.bench import Bench

PROGRAM = "streams"
PARTS = {
    "self_join": self_join,
    "band": band,
    "growth": growth,
    "many": many,
    "order": order,
    "epoch": epoch,
    "delta": delta,
    "materialized": materialized,
    "together": together,
    "flink": flink,
    "flink_cascade": flink_cascade,
}
ASKED_OF_FLINK = {"flink", "flink_cascade"}


def main() -> None:
    args = harness.arguments(PROGRAM, purpose or "", tuple(PARTS))
    named = [part for part in PARTS if part in args.parts]
    missing = flink.missing()
    if missing and ASKED_OF_FLINK & {*named}:
        raise SystemExit(missing)
    if missing and not named:
        harness.console.print(
            f"left out: {', '.join(sorted(ASKED_OF_FLINK))}; {missing}", highlight=False, soft_wrap=True
        )
    for part in named or [part for part in PARTS if part not in ASKED_OF_FLINK or not missing]:
        with harness.session(PROGRAM) as spark, tempfile.TemporaryDirectory(prefix="dovetail-") as scratch:
            report = harness.Report(PROGRAM, PARTS[part].TITLE, args.quick, part)
            PARTS[part].measure(Bench(spark, report, Path(scratch), args.quick, args.long))
            report.write(spark)


if __name__ == "__main__":
    main()
