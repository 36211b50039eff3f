"""The driver ends at a call of the file system, whoever makes it: nothing is lost then, and nothing is there twice.

Some calls in `make test-all`, by SIGKILL; `make crash-test` takes all of them, refusing each call in turn in one
process, and those of ours once more by SIGKILL.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest

from crash_points_main import compile_files, ours
from crash_scenarios import SCENARIOS, Work, go_on, restore
from effort import SEED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

MAIN = Path(__file__).parents[1] / "crash_points_main.py"
WHOLE = os.environ.get("DOVETAIL_POINTS", "")
pytestmark = [
    pytest.mark.thorough,  # where a driver is when it is killed hangs on the machine
    pytest.mark.skipif(shutil.which("javac") is None, reason="a JDK is needed, whose javac compiles the calls"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("points")
    compile_files(found)
    return found


def driver(folder: Path, *more: str) -> subprocess.Popen[str]:
    """A driver in a process of its own, whose JVM goes with it."""
    with (folder / "errors").open("a") as errors:
        return subprocess.Popen(
            [sys.executable, str(MAIN), str(folder), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


def killed(process: subprocess.Popen[str]) -> bool:
    """Whether a driver is killed at its call; False where it comes to its end before."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    with suppress(BrokenPipeError):
        process.stdin.write("go\n")
        process.stdin.flush()
    said = process.stdout.readline()
    end(process)
    return said != "done\n"


def end(process: subprocess.Popen[str]) -> None:
    with process, suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def kill_at(spark: SparkSession, folder: Path, name: str, points: Iterable[int]) -> int:
    """Kill a step at each of the calls, start it again, and compare; how many kills there were.

    The next driver gets ready meanwhile.
    """
    own, scenario, count = Path(mkdtemp(prefix="killed-", dir=folder)), SCENARIOS[name], 0
    work, template, left = Work(own / "work"), own / "template", list(points)
    scenario.prepare(spark.newSession(), work)
    work.folder.rename(template)
    ready = driver(own, name, str(left[0]))
    for n, point in enumerate(left):
        process, ready = ready, driver(own, name, str(left[n + 1])) if n + 1 < len(left) else ready
        restore(template, work.folder)
        count += killed(process)
        try:
            go_on(spark, scenario, work)
        except BaseException as error:
            error.add_note(f"{name}, killed before call {point}")
            end(ready)
            raise
    return count


SOME = (("catch-up at epoch 0", 60), ("refresh", 90), ("merge", 90))


@pytest.mark.parametrize(("name", "calls"), SOME)
def test_killed_at_some_call(spark: SparkSession, folder: Path, name: str, calls: int) -> None:
    random = Random(f"{name} {SEED}")
    assert kill_at(spark, folder, name, [random.randrange(calls)]) == 1, (folder / "errors").read_text()


@pytest.mark.skipif(not WHOLE, reason="for `make crash-test`, which sets DOVETAIL_POINTS")
@pytest.mark.parametrize("name", SCENARIOS)
def test_ended_at_each_call(spark: SparkSession, folder: Path, name: str) -> None:
    own = folder / f"each-{name.replace(' ', '-')}"
    own.mkdir()
    process = driver(own, name)
    assert process.stdout is not None
    first, *found = map(json.loads, process.stdout)
    end(process)
    wrong = [(n, said) for n, said in found if said]
    assert found, (own / "errors").read_text()
    assert not wrong, f"{name}: {len(wrong)} of {len(found)}: {wrong[0]}"
    kills = kill_at(spark, folder, name, ours(first))
    print(f"\n{name}: {len(first)} calls, {len(found)} refused, {kills} kills at calls of ours, all right")
