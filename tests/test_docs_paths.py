"""Every path that a page of the documentation names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TOLD = [page for page in PAGES if page.name != "CHANGELOG.md"]  # that one tells of files as they were
FOLDERS = "planner|rules|executor|optimizer|golden_plans|tests|benchmarks|docs|examples"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")


def paths(page: Path) -> list[str]:
    """The paths in code spans."""
    return PATH.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", TOLD, ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    assert [said for said in paths(page) if not (ROOT / said).exists()] == []


def test_files_named_without_a_folder_exist() -> None:
    named = re.findall(r"`(\w+\.py)`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    files = {path.name for folder in FOLDERS.split("|") for path in (ROOT / folder).rglob("*.py")}
    assert [name for name in named if name not in files] == []


def test_there_are_paths_to_look_at() -> None:
    assert len(paths(ROOT / "ARCHITECTURE.md")) > 50
