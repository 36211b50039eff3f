"""Builds the sdist and the wheel as a release does: the wheel from what is in the sdist."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = (ROOT / "planner" / "version.py").read_text().split('"')[-2]
# What the commands of a bare installation must do, without PySpark and without any extra: (arguments, in the output).
SMOKE = (
    (["--version"], VERSION),
    (["rules"], "lower_band_join"),
    (["completion", "bash"], "_DOVETAIL_COMPLETE"),
    (["advise", "queries", "--catalog", "catalog.toml"], "1 statement: 1 rewritten"),
)


def build(folder: Path) -> tuple[Path, Path]:
    """Build both into a folder; return the sdist and the wheel."""
    _hatchling(ROOT, "sdist", folder)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    _hatchling(source, "wheel", folder)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def _hatchling(source: Path, kind: str, folder: Path) -> None:
    code = f"from hatchling.build import build_{kind} as build; build({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=source, check=True, capture_output=True)


def write_workload(folder: Path) -> None:
    """Write a query with a band join, and the catalog that declares its tables."""
    (folder / "queries").mkdir()
    (folder / "queries" / "q.sql").write_text("SELECT p.x, i.lo FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi")
    tables = {"p": 'x = "BIGINT"', "i": 'lo = "BIGINT", hi = "BIGINT"'}
    (folder / "catalog.toml").write_text(
        "".join(f"[tables.{name}]\nrows = 1_000_000\ncolumns = {{ {columns} }}\n" for name, columns in tables.items())
    )
