"""Runs a query as plain Spark in a process of its own, which can be ended: tasks of a join do not look at a cancel.

``python -m benchmarks.plain_spark QUERY NAME=FOLDER … spark.SETTING=VALUE …`` warms up on a few rows, prints "ready",
waits for a line, runs, and prints "done".
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks import harness

if TYPE_CHECKING:
    from collections.abc import Mapping

_FEW = 2_000
# Spark 4.3 takes ASOF JOIN, with an operator that sorts both sides; by default it does neither.
ASOF_JOIN = {"spark.sql.join.asofJoin.enabled": "true", "spark.sql.join.sortMergeAsOfJoin.enabled": "true"}


def main() -> None:
    """Run the query of the command line over its tables."""
    query, *given = sys.argv[1:]
    named = dict(one.split("=", 1) for one in given)
    settings = {name: value for name, value in named.items() if name.startswith("spark.")}
    with harness.session("plain", {**ASOF_JOIN, **settings}) as spark:
        frames = {name: spark.read.parquet(folder) for name, folder in named.items() if name not in settings}
        for limit in (_FEW, _FEW, _FEW, None):  # a few runs over few rows, so that the JVM is at speed
            for name, frame in frames.items():
                (frame.limit(limit) if limit else frame).createOrReplaceTempView(name)
            if limit:
                harness.run(spark.sql(query))
        print("ready", flush=True)
        sys.stdin.readline()
        harness.run(spark.sql(query))
        print("done", flush=True)


def seconds_within(limit: float, query: str, named: Mapping[str, str]) -> float | None:
    """Seconds of a query; None where it is ended at the limit.

    ``named``: folders of Parquet files by the names of tables, and values of settings by names that begin with spark.

    Raises ``RuntimeError`` where the query fails.
    """
    command = [sys.executable, "-m", "benchmarks.plain_spark", query, *(f"{n}={f}" for n, f in named.items())]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"Spark did not start for {query}")
            begun = perf_counter()
            process.stdin.write("go\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as waiting:
                waiting.register(process.stdout, selectors.EVENT_READ)
                if not waiting.select(limit):
                    return None
            if process.stdout.readline() != "done\n":
                raise RuntimeError(f"Spark failed: {query}")
            return perf_counter() - begun
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
