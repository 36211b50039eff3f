"""The driver is killed at random moments, for real; `make crash-test` does it more often."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from planner.state.folder import LocalFolder
from planner.state.store import Store
from stream_feeds import stamp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KILLS = int(os.environ.get("DOVETAIL_KILLS", "5"))
MAIN = Path(__file__).parents[1] / "stream_crash_main.py"


def attempt(folder: Path, name: str, patience: float | None) -> bool:
    """Run until all is taken, or be killed so many seconds after the start; whether it came to its end."""
    process = subprocess.Popen(
        [sys.executable, str(MAIN), str(folder), name],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # its JVM is killed with it
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "started\n"
        if patience is not None:
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                return False
        return process.stdout.readline() == "done\n"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def rows(session: SparkSession, folder: Path) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, session.read.parquet(str(folder / "out")).collect()))


def test_killed_at_random_moments(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(os.environ.get("DOVETAIL_SEED", "1"))
    (tmp_path / "in").mkdir()
    for epoch in range(2 * KILLS + 4):
        times = [max(0, epoch * 10_000 + random.randrange(-4_000, 10_000)) for _ in range(30)]
        lines = [{"id": epoch * 30 + n, "k": random.randrange(3), "ts": stamp(t)} for n, t in enumerate(times)]
        path = tmp_path / "in" / f"{epoch:04}.json"
        path.write_text("\n".join(map(json.dumps, lines)))
        os.utime(path, (1_700_000_000 + epoch,) * 2)
    assert attempt(tmp_path, "quiet", None)
    killed = 0
    while killed < KILLS and not attempt(tmp_path, "killed", random.uniform(0.5, 6)):
        killed += 1
    if killed == KILLS:
        assert attempt(tmp_path, "killed", None)
    assert killed >= min(KILLS, 3)
    expected = rows(spark, tmp_path / "quiet")
    assert rows(spark, tmp_path / "killed") == expected
    assert len(expected) > 100
    stores = [Store(LocalFolder(tmp_path / name / "checkpoint")) for name in ("quiet", "killed")]
    for store in stores:
        store.check(store.manifest(store.epochs()[-1]))
    one, other = (store.manifest(store.epochs()[-1]) for store in stores)
    assert (one.epoch, one.watermark, one.times) == (other.epoch, other.watermark, other.times)
    assert [(i.rows, i.read, i.late) for i in one.inputs] == [(i.rows, i.read, i.late) for i in other.inputs]
