"""Plants wrong rewritings one at a time, in a copy of the packages, and runs the tests that should notice them.

    python tests/planted_faults_main.py [SOME [SEED]]    SOME of the faults, others for each seed; all without

A fault is noticed where tests fail; golden plans first, without a JVM, and then all other tests without a JVM; or the
tests on Spark that the fault names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from random import Random

from planted_faults import FAULTS, Fault

ROOT = Path(__file__).parents[1]
COPIED = ("planner", "rules", "executor", "optimizer", "dovetail", "golden_plans", "tests", "docs", "pyproject.toml")
FAILED = 1  # pytest: tests ran, and some of them failed
COPIES = 2


@dataclass(frozen=True)
class Copy:
    """A copy of the packages in a folder."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Copy:
        folder.mkdir()
        for name in COPIED:
            source, target = ROOT / name, folder / name
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        return cls(folder)

    def result(self, *args: str, marked: str = "not spark") -> tuple[int, str]:
        """What pytest returns over some tests, and prints."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", marked, *args]
        environment = os.environ | {"PYTHONPATH": str(self.folder)}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def judge(self, fault: Fault) -> str:
        """Nothing where a fault is noticed; else what is wrong."""
        path = self.folder / fault.file
        before = path.read_text() if path.exists() else ""
        if before.count(fault.old) != 1:
            return f"{fault.old!r} is not in {fault.file} exactly once; plant the fault anew in tests/planted_faults.py"
        path.write_text(before.replace(fault.old, fault.new))
        try:
            code, text = self.result(fault.tests, marked="") if fault.tests else self.result(_cases(fault))
            if not code and not fault.tests:
                code, text = self.result("golden_plans", "tests/planner", "tests/rules")
        finally:
            path.write_text(before)
        if code == 0:
            return "no test notices it"
        return "" if code == FAILED else f"tests do not run:\n{text[-2000:]}"


def main(some: int, seed: int) -> int:
    """Plant them; returns how many are not noticed."""
    chosen = Random(seed).sample(FAULTS, min(some, len(FAULTS)))
    with tempfile.TemporaryDirectory(prefix="planted") as scratch:
        free: Queue[Copy] = Queue()
        for n in range(COPIES):
            free.put(Copy.make(Path(scratch) / str(n)))

        def judge(fault: Fault) -> str:
            copy = free.get()
            try:
                why = copy.judge(fault)
            finally:
                free.put(copy)
            print(f"{fault.name}: {why or 'noticed'}", flush=True)
            return why

        cases = sorted({_cases(fault) for fault in chosen if not fault.tests})
        code, text = free.queue[0].result(*cases) if cases else (0, "")
        if code:
            print(f"the golden plans fail without a fault:\n{text[-2000:]}")
            return 1
        with ThreadPoolExecutor(COPIES) as pool:
            missed = sum(map(bool, pool.map(judge, chosen)))
    print(f"planted faults: {len(chosen) - missed} of {len(chosen)} noticed, of {len(FAULTS)} that there are")
    return missed


def _cases(fault: Fault) -> str:
    return f"golden_plans/cases/{fault.cases}"


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(min(1, main(*(given + [len(FAULTS), 0][len(given) :]))))
