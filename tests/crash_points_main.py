"""Kills the driver at calls of the file system: crash_points_main.py FOLDER SCENARIO [CALL]; it needs a ``javac``.

With a CALL: prints "ready", waits for a line on stdin, and is killed at this call, or prints "done" where there are
fewer.  Without one, each call in turn is refused, and all later ones; then the step is started again in the same
process, and what there is compared.  Prints the calls of a whole step, then for each refused one whether all was right.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark

from crash_scenarios import SCENARIOS, Work, go_on, restore
from sessions import start


def main(folder: Path, name: str, call: str = "") -> None:
    classes = folder.parent / "classes"
    files = {
        "spark.driver.extraClassPath": str(classes),
        "spark.hadoop.fs.file.impl": "KilledFiles",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "KilledFiles$Context",
        "spark.sql.shuffle.partitions": "1",
    }
    session = start("classic", folder / "spark", **files)
    jvm: Any = session._jvm
    killed, scenario, work = jvm.KilledFiles, SCENARIOS[name], Work(folder / "work")
    if call:
        print("ready", flush=True)
        sys.stdin.readline()
        killed.arm(str(work.folder), int(call), True)
        scenario.step(session.newSession(), work)
        print("done", flush=True)
        return
    template = folder / "template"
    scenario.prepare(session.newSession(), work)
    work.folder.rename(template)
    restore(template, work.folder)
    killed.arm(str(work.folder), -1, False)
    scenario.step(session.newSession(), work)
    killed.disarm()
    print(json.dumps(list(killed.seen())), flush=True)
    for at in points(list(killed.seen())):
        restore(template, work.folder)
        killed.arm(str(work.folder), at, False)
        with suppress(Exception):
            scenario.step(session.newSession(), work)
        if not killed.disarm():
            continue
        try:
            go_on(session, scenario, work)
            print(json.dumps([at, ""]), flush=True)
        except Exception:  # noqa: BLE001 - whatever is wrong is told
            print(json.dumps([at, traceback.format_exc()]), flush=True)


def points(calls: list[str]) -> list[int]:
    """The calls to be refused: all, or what DOVETAIL_POINTS says: ``ours`` and the next ones, or START:STOP:STEP."""
    chosen = os.environ.get("DOVETAIL_POINTS") or "::"
    if chosen == "ours":
        return ours(calls)
    return [*range(len(calls))[slice(*(int(part) if part else None for part in chosen.split(":")))]]


def ours(calls: list[str]) -> list[int]:
    """The calls that are not Spark's, and those that follow on them."""
    own = {n for n, call in enumerate(calls) if call.startswith("*")}
    return sorted(own | {n + 1 for n in own if n + 1 < len(calls)})


def compile_files(folder: Path) -> None:
    """Compile the file system beside this file."""
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    source = Path(__file__).with_name("KilledFiles.java")
    command = ["javac", "-nowarn", "-cp", str(jars), "-d", str(folder / "classes"), str(source)]
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
