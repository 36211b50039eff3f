"""One executor and two: as-of joins, a band join, and joins of streams.

Driver and executors would share the cores of one machine, and one executor would have more than its core while the
driver waits.  So each executor gets half a core, by a quota of its control group (version 1, which root may set), and
the driver has the rest.  Elsewhere nothing limits them, and the report says so.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import harness
from benchmarks.nearest_ranges import CASES, COLUMNS, NEVER, tables
from benchmarks.streams.bench import EVEN, ZIPF, Bench
from benchmarks.streams.self_join import QUERY
from dovetail import Optimizer, Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

PROGRAM = "executors"
ROWS, QUICK_ROWS, SCALED = 3_000_000, 200_000, 1.7
JOINS = {  # and the rows of one task
    "as-of join, 1,000 keys": (f"SELECT {COLUMNS} ON t.k = q.k", NEVER),
    "as-of join, no key, in one task": (CASES["no key"], NEVER),
    "as-of join, no key, in ranges": (CASES["no key"], 0),
    "as-of join, one key in 90 % of the rows, in ranges": (CASES["one key in 90 % of the rows"], 0),
    "band join": ("SELECT t.id, q.price FROM trades t JOIN some_quotes q ON t.ts BETWEEN q.ts AND q.until", NEVER),
}
STREAMS = {"even keys": (EVEN, 500_000), "Zipf keys": (ZIPF, 100_000)}  # rows of each of five epochs
SETTINGS = {"spark.sql.shuffle.partitions": "32", "spark.driver.memory": "3g"}
_GROUPS, _PERIOD, _HALF = Path("/sys/fs/cgroup/cpu"), 20_000, 10_000  # microseconds


@contextmanager
def half_a_core_each() -> Iterator[bool]:
    """Give each executor of this machine half a core; False where it cannot be limited."""
    groups: list[Path] = []
    try:
        for executor in _executors():
            group = _GROUPS / f"dovetail-{executor}"
            group.mkdir()
            groups.append(group)
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(_HALF))
            (group / "cgroup.procs").write_text(executor)
        limited = bool(groups)
    except OSError:
        limited = False
    try:
        yield limited
    finally:
        for group in groups:
            for process in (group / "cgroup.procs").read_text().split():
                (_GROUPS / "cgroup.procs").write_text(process)
            group.rmdir()


def _executors() -> Iterator[str]:
    """The numbers of the processes that are executors."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                yield process.name


def _measure(spark: SparkSession, quick: bool) -> dict[str, float]:
    """Return the seconds of each join, on the executors of a session."""
    rows, rounds, times = QUICK_ROWS if quick else ROWS, 1 if quick else 3, {}

    def time(name: str, run: Callable[[], object]) -> None:
        run()
        times[name] = median(harness.seconds(run) for _ in range(rounds))
        harness.console.print(name, f"{times[name]:.1f} s", highlight=False)

    tables(spark, rows)
    for name, (text, most) in JOINS.items():
        opt = Optimizer(spark, Options(nearest_range_rows=most))
        time(name, lambda opt=opt, text=text: harness.run(opt.sql(text)))  # type: ignore[misc]
    with tempfile.TemporaryDirectory(prefix="dovetail-") as scratch:
        bench = Bench(spark, harness.Report(PROGRAM, "", quick), Path(scratch))
        for name, (key, full) in STREAMS.items():
            of_epoch = full // 50 if quick else full
            folder = bench.events(name, 5, of_epoch, span=57.4, keys=20_000, key=key)
            title = f"stream with itself, {name}, {of_epoch:,} rows an epoch"
            time(title, lambda at=folder: bench.run(bench.session({"s": at}, "2 seconds"), QUERY))  # type: ignore[misc]
    return times


def main() -> None:
    args = harness.arguments(PROGRAM, __doc__ or "")
    report, times, limited = harness.Report(PROGRAM, "One executor and two", args.quick), [], True
    for count in (1, 2):
        with harness.session(PROGRAM, SETTINGS, f"local-cluster[{count},1,1536]") as spark:
            spark.range(count).repartition(count).count()  # all executors have started
            with half_a_core_each() as is_limited:
                limited = limited and is_limited
                times.append(_measure(spark, args.quick))
            if count == 2:
                lines = [
                    (name, f"{one:.1f} s", f"{two:.1f} s", report.judged(f"{one / two:.2f}", one / two >= SCALED))
                    for (name, one), two in zip(times[0].items(), times[1].values(), strict=True)
                ]
                report.table(
                    f"Executors of {'half a' if limited else 'one'} core", ("join", "one", "two", "faster"), lines
                )
                rows, rounds = (QUICK_ROWS, 1) if args.quick else (ROWS, 3)
                report.note(
                    f"{harness.medians(rounds)} after one to warm up, with parsing and planning. A table has {rows:,} "
                    "rows; the band join has a tenth of the quotes; a stream has five epochs."
                )
                report.write(spark)


if __name__ == "__main__":
    main()
