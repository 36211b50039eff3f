"""Runs ``versions_main.py`` on other versions of PySpark, each in a virtual environment below ``.data/versions``.

``sail`` stands for Sail, a server of Spark Connect without a JVM, and the client of PySpark that it supports.  ``dbt``
stands for dbt on a session, which builds the project of ``examples/``.  Prints a table, and ends with exit code 1 where
rows differ or a version fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import tomllib

from dbt_builds import compare_builds

ROOT = Path(__file__).parents[1]
SAIL, DBT = "sail", "dbt"
VERSIONS = ("3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0", SAIL, DBT)
NEEDS = ("networkx", "sqlglot", "typer", "rich", "pyarrow", "adbc-driver-manager", "adbc-driver-sqlite", "pandas")
_PYSPARK = "pyspark=="
_ENGINES = {DBT: ("dbt-spark[session]==1.11.0", "dbt-core==1.10.23", "pyspark==4.3.0")}


def main(versions: list[str]) -> int:
    """Run every version, and print what each shows."""
    seen = {}
    for version in versions or VERSIONS:
        seen[version] = run(version)
        print(version, json.dumps(seen[version]), flush=True)
    width = max(len(what) for each in seen.values() for what in each)
    print(" " * width, *(f"{version:12}" for version in seen))
    for what in dict.fromkeys(what for each in seen.values() for what in each):
        print(f"{what:{width}}", *(f"{each.get(what, 'not run'):12}" for each in seen.values()))
    return int(any(not is_right(word) for each in seen.values() for word in each.values()))


def is_right(word: str) -> bool:
    """Whether the rows were those of plain Spark."""
    return word in ("rewritten", "as written", "not run by the engine")


def run(version: str) -> dict[str, str]:
    """Run one version; return what came of each kind."""
    python = environment(version)
    if version == DBT:
        return compare_builds(python)
    settings = os.environ | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(ROOT)}
    command = [str(python), str(ROOT / "tests" / "versions_main.py"), *([SAIL] if version == SAIL else [])]
    done = subprocess.run(
        command, cwd=python.parent, env=settings, capture_output=True, text=True, timeout=900, check=False
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = {line["what"]: line["seen"] for line in lines}
    return found or {"start": " ".join(done.stderr.splitlines()[-1:]) or "nothing printed"}


def environment(version: str) -> Path:
    """Make the virtual environment of a version unless it is there; return its Python."""
    folder = ROOT / ".data" / "versions" / version
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "setuptools"]
        engine = (*_extra("sail"), "py4j") if version == SAIL else _ENGINES.get(version, (f"{_PYSPARK}{version}",))
        subprocess.run([*pip, *engine, *map(_pinned, NEEDS)], check=True)
        (folder / "installed").touch()
    return python


def _extra(name: str) -> list[str]:
    """Return the requirements of an extra of ``pyproject.toml``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["optional-dependencies"][name])


def _pinned(name: str) -> str:
    """Return a requirement with the version of ``constraints.txt``."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return next((line.strip() for line in lines if line.lower().startswith(f"{name}==")), name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
