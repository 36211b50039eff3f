"""Builds sdist and wheel into dist/, installs the wheel into a new environment, and tries it there: ``make dist``.

pip takes the dependencies from wherever it is configured to.  Ends with 1 if a command does not do what it should.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from distributions import ROOT, SMOKE, build, write_workload
from dovetail.optimizer.report import PLACEHOLDER


def placeholder_problem(wheel: Path) -> str:
    """Why a wheel must not be published: its issue tracker is still the placeholder.  Empty for another address."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        found = [line for line in archive.read(name).decode().splitlines() if line.startswith("Project-URL: Issues")]
    if found and PLACEHOLDER not in found[0]:
        return ""
    return "[project.urls] in pyproject.toml has no address of the issue tracker yet; write that of the home"


def main() -> int:
    """Build, install and try; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="dovetail-dist-") as scratch:
        folder = Path(scratch)
        made = build(folder)
        environment = folder / "environment"
        venv.create(environment, with_pip=True)
        binaries = environment / "bin"
        subprocess.run([binaries / "pip", "install", "--quiet", made[1]], check=True)
        write_workload(folder)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DOVETAIL"))}
        for args, expected in SMOKE:
            done = subprocess.run(
                [binaries / "dovetail", *args], cwd=folder, env=clean, capture_output=True, text=True, check=False
            )
            if done.returncode or expected not in done.stdout:
                print(f"dovetail {' '.join(args)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
                return 1
        if problem := placeholder_problem(made[1]):
            print(f"dist/ is not written: {problem}")
            return 1
        (ROOT / "dist").mkdir(exist_ok=True)
        for file in made:
            shutil.copy(file, ROOT / "dist")
            print(f"dist/{file.name}: {file.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
