"""Advice from event logs: planted joins that are found, false alarms on TPC-H, and the time and memory for 1 GiB.

Plain Spark runs every query with its event log on.  The log of 1 GiB repeats the log of the planted queries, each time
with other numbers of executions, stages and accumulators, and is read in a process of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks import harness
from dovetail.optimizer.advise.event_log.advice import read_folder
from dovetail.optimizer.advise.event_log.compression import read_lines
from tests.tpc import data

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from event_log_queries import ORDINARY, PLANTED, make_tables, run_queries

MOST_SECONDS, MOST_MEMORY = 60, 500 << 20
_SETTINGS = {"spark.eventLog.enabled": "true", "spark.sql.shuffle.partitions": "8"}
_NUMBERS = re.compile(rb'"(executionId|Stage ID|accumulatorId|ID)":(\d+)')
_UPDATES = re.compile(rb"\[(\d+),")
_MEASURED = """
import sys, time
from pathlib import Path
from dovetail.optimizer.commands.event_log import run_event_log
start = time.perf_counter()
code = run_event_log(Path(sys.argv[1]))
memory = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(time.perf_counter() - start, int(memory.split()[1]) * 1024, file=sys.stderr)
"""


def main() -> None:
    args = harness.arguments("event_logs", __doc__ or "")
    report = harness.Report("event_logs", "Advice from event logs", args.quick)
    with tempfile.TemporaryDirectory() as scratch:
        logs = Path(scratch, "logs")
        logs.mkdir()
        with harness.session("event_logs", _SETTINGS | {"spark.eventLog.dir": logs.as_uri()}) as spark:
            make_tables(spark, Path(scratch), hot=4_000 if args.quick else 16_000)
            run_queries(spark, PLANTED | ORDINARY)
            data.register(spark, "tpch", 0.01 if args.quick else 0.05)
            tpch = data.queries("tpch")
            for broadcast in ("10MB", "-1"):
                spark.conf.set("spark.sql.autoBroadcastJoinThreshold", broadcast)
                for name, text in tpch.items():
                    spark.sparkContext.setJobDescription(f"/* {name} */ {text}")
                    spark.sql(text).collect()
        found = _names(logs)
        planted, alarms = [name for name in PLANTED if found[name]], [name for name in found if name not in PLANTED]
        report.table(
            "What is found",
            ("queries", "how many", "with a finding"),
            [
                ("planted", str(len(PLANTED)), report.judged(str(len(planted)), len(planted) == len(PLANTED))),
                ("ordinary", str(len(ORDINARY) + 2 * len(tpch)), report.judged(str(len(alarms)), not alarms)),
            ],
        )
        size = (64 if args.quick else 1024) << 20
        rows = [_measure(report, logs, Path(scratch, "repeated"), size)]
        report.table("Reading", ("log", "time", "memory"), rows)
        with harness.session("event_logs", {"spark.eventLog.enabled": "false"}) as spark:
            report.write(spark)


def _names(logs: Path) -> Counter[str]:
    _, found, _ = read_folder(logs)
    return Counter(re.findall(r"/\* (\w+) \*/", one.finding.sql or "?")[0] for one in found)


def _measure(report: harness.Report, logs: Path, target: Path, size: int) -> tuple[str, str, str]:
    target.mkdir()
    (source,) = logs.glob("eventlog_v2_*/events_1_*")
    with source.open("rb", buffering=0) as file:
        _repeat(list(read_lines(file)), target / "repeated", size)
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(target)], capture_output=True, text=True, check=True
    ).stderr.split()
    seconds, memory = float(done[-2]), float(done[-1])
    return (
        f"{size >> 20} MiB",
        report.judged(f"{seconds:.0f} s", seconds <= MOST_SECONDS),
        report.judged(f"{memory / (1 << 20):.0f} MiB", memory <= MOST_MEMORY),
    )


def _repeat(lines: list[bytes], target: Path, size: int) -> None:
    end = [line for line in lines if b"SparkListenerApplicationEnd" in line[:60]]
    with target.open("wb") as file:
        rounds = 0
        while file.tell() < size:
            file.writelines(_renumber(line, rounds * 100_000) for line in lines if line not in end)
            rounds += 1
        file.writelines(end)


def _renumber(line: bytes, by: int) -> bytes:
    line = _NUMBERS.sub(lambda m: b'"%s":%d' % (m[1], int(m[2]) + by), line)
    if b"DriverAccumUpdates" in line[:90]:
        line = _UPDATES.sub(lambda m: b"[%d," % (int(m[1]) + by), line)
    return line


if __name__ == "__main__":
    main()
