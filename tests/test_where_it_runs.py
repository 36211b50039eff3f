"""The same smoke test of the API on every kind of session; one process holds one JVM."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from where_it_runs_main import INTERVALS, NAMES, POINTS, observe

PROGRAM = Path(__file__).with_name("where_it_runs_main.py")
KEPT = {
    "classic": "No relation of this query is a stream, so there is nothing to maintain. Read one of its inputs by "
    "spark.readStream, or make an ordinary view",
    "connect": "opt.materialize needs a classic session, not Spark Connect: the driver's JVM writes the state of a "
    "view. Run it where the driver runs, on a session of SparkSession.builder.master(…)",
}


def expect(seen: dict[str, Any], *session: str) -> None:
    known = [(i, lo, hi) for i, lo, hi in INTERVALS if lo is not None and hi is not None]
    inside = [[p, i] for p, x in POINTS if x is not None for i, lo, hi in known if lo <= x <= hi]
    begins = [lo for _, lo, _ in INTERVALS if lo is not None]
    last = [[p, max((lo for lo in begins if x is not None and lo <= x), default=None)] for p, x in POINTS]
    above = [[p, x + 1] for p, x in POINTS if x is not None and x > 5]
    names: dict[int | None, list[str | None]] = {x: [name for y, name in NAMES if y == x] or [None] for _, x in POINTS}
    named = [[p, name] for p, x in POINTS for name in names[x]]
    assert seen == {
        "session": list(session),
        "band_rewritten": True,
        "band_explained": True,
        "band_rows": sorted(inside, key=repr),
        "band_verified": True,
        "no_join_rewritten": False,
        "no_join_rows": sorted(above, key=repr),
        "spark_band_rows": sorted(inside, key=repr),
        "spark_no_join_rows": sorted(above, key=repr),
        "lookup_rows": sorted(named, key=repr),
        "frames_rewritten": True,
        "frames_rows": sorted(inside, key=repr),
        "frames_rows_later": sorted(inside, key=repr),
        "asof_rows": sorted(last, key=repr),
        "repeatable": [],
        "views_rewritten": {"as made": True, "made anew": True, "under another setting": False},
        "keys": {"same table": True, "another table": False},
        "kept": KEPT[session[0]],
        "views_left": ["i", "p"],
    }


def in_a_process_of_its_own(where: str, scratch: Path) -> dict[str, Any]:
    command = [sys.executable, str(PROGRAM), where, str(scratch)]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def test_on_a_classic_session(spark: SparkSession) -> None:
    expect(observe(spark.newSession()), "classic", "local[2]")


@pytest.mark.cluster
def test_on_executors_in_processes_of_their_own(tmp_path: Path) -> None:
    expect(in_a_process_of_its_own("cluster", tmp_path), "classic", "local-cluster[2,1,1024]")


@pytest.mark.connect
def test_on_spark_connect(tmp_path: Path) -> None:
    expect(in_a_process_of_its_own("connect", tmp_path), "connect", "local[2]")
