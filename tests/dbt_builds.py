"""Builds the dbt project of ``examples/`` twice, as it is and under ``dovetail exec``, and compares its tables."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyarrow.dataset

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "examples" / "dbt_project"
MODELS = {"campaign_clicks": "rewritten", "clicks_by_campaign": "as written"}


def compare_builds(python: Path) -> dict[str, str]:
    """Build with the dbt of a Python's environment; return for each model what came of it."""
    with tempfile.TemporaryDirectory() as scratch:
        plain, planned = Path(scratch, "plain"), Path(scratch, "planned")
        _build(plain, [str(python.parent / "dbt")])
        log = _build(planned, [str(python), "-m", "dovetail", "exec", "-v", str(python.parent / "dbt")])
        rewritten = log.count("dovetail: Rewritten in ")
        seen = {}
        for model, expected in MODELS.items():
            rows, others = _rows(plain, model), _rows(planned, model)
            same = rows and rows == others
            seen[f"dbt: {model}"] = expected if same else f"{len(rows)} rows, and {len(others)} under Dovetail"
        if rewritten != list(MODELS.values()).count("rewritten"):
            seen["dbt: statements rewritten"] = str(rewritten)
        return seen


def _build(folder: Path, dbt: list[str]) -> str:
    shutil.copytree(PROJECT, folder)
    settings = os.environ | {"PYTHONPATH": str(ROOT), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    command = [*dbt, "build", "--profiles-dir", "."]
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(f"dbt failed:\n{done.stdout}\n{done.stderr}")
    return done.stderr


def _rows(folder: Path, model: str) -> list[str]:
    """The rows of a table, read without Spark."""
    table = folder / "spark-warehouse" / "shop.db" / model
    return sorted(map(repr, pyarrow.dataset.dataset(table, format="parquet").to_table().to_pylist()))
