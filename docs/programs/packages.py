"""The page of packages: every folder of the code, with the docstring of its package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAYERS = ("planner", "rules", "executor", "optimizer", "dovetail", "golden_plans")
_HEAD = """# Packages: reference

Every folder of the code, from the docstring of its package, in the order of imports. The first line of each file in it
is its purpose. [ARCHITECTURE](../../ARCHITECTURE.md) describes how they work together. `python -m docs.programs`
writes this page.

| package | |
| --- | --- |"""


def packages() -> str:
    """Return the page as Markdown."""
    return "\n".join([_HEAD, *(row for layer in LAYERS for row in _rows(ROOT / layer)), ""])


def _rows(layer: Path) -> Iterator[str]:
    for path in sorted(layer.rglob("__init__.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        purpose = " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|").replace("``", "`")
        yield f"| `{path.parent.relative_to(ROOT).as_posix()}/` | {purpose} |"
