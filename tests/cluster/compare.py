"""Spark's standalone cluster: a master and two workers as processes, rows compared with plain Spark's on the same.

``python tests/cluster/compare.py [statements] [lookups] [kills]`` prints a table.  Exit code 1: rows differ.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tables"))

import pyspark

from distributions import build
from run import SKIPPED, table
from versions import environment

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT, ROOT / "tests", ROOT / "tests" / "tables", ROOT / "tests" / "cluster")
GROUPS = ("statements", "lookups", "kills")


def main(groups: list[str]) -> int:
    """Run groups, and print a table of each."""
    wrong = 0
    for group in groups or GROUPS:
        wrong += table(f"PySpark {pyspark.__version__}", {"a standalone cluster of two workers": tried(group)})
    return int(wrong > 0)


def tried(group: str) -> list[dict[str, Any]]:
    """Run a group with a driver of its own; return its lines."""
    try:
        python = environment(pyspark.__version__)
    except subprocess.CalledProcessError:
        seen = f"The executors' Python was not installed, since PySpark {pyspark.__version__} could not be fetched."
        return [{"group": group, "what": SKIPPED, "seen": seen}]
    with tempfile.TemporaryDirectory() as folder:
        archive = [str(packed(Path(folder)))] if group == "lookups" else []
        settings = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, FOLDERS))}
        command = [sys.executable, str(ROOT / "tests" / "cluster" / "cluster_main.py"), group, str(python), *archive]
        done = subprocess.run(
            command, cwd=folder, env=settings, capture_output=True, text=True, timeout=3600, check=False
        )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        ended = " ".join(done.stderr.splitlines()[-1:]) or "nothing printed"
        lines.append({"group": group, "what": "ended", "seen": ended})
    return lines


def packed(folder: Path) -> Path:
    """Dovetail as a zip for ``--py-files``: a wheel is one."""
    _, wheel = build(folder)
    return Path(shutil.copy(wheel, folder / "dovetail.zip"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
