"""Reads the tables of ``benchmarks/results``."""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def rows(name: str, heading: str) -> list[list[str]]:
    """Return the cells of the rows of the table below a heading, without its head.

    Raises ``KeyError`` where the file has no heading that begins so.
    """
    lines = iter((RESULTS / f"{name}.md").read_text(encoding="utf-8").splitlines())
    if not any(line.startswith(f"## {heading}") for line in lines):
        raise KeyError(f"benchmarks/results/{name}.md has no heading that begins with {heading!r}")
    table: list[list[str]] = []
    for line in lines:
        if line.startswith("|"):
            table.append([cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif table:
            break
    return table[2:]


def number(text: str) -> float:
    """Return the first number of a cell: ``1.5`` for ``1.5 s``, ``50000`` for ``50,000 × 50,000``."""
    found = re.search(r"[\d,]*\.?\d+", text)
    if found is None:
        raise ValueError(f"{text!r} has no number")
    return float(found.group().replace(",", ""))
