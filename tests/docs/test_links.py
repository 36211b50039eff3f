"""Every link of a page to another page, a heading, a picture or a file of the repository leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
IN_CODE = re.compile(r"\bdocs/[\w./-]+\.md\b")


def lines(page: Path) -> Iterator[str]:
    """The lines of a page outside of blocks of code."""
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield line


@cache
def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub and MkDocs make them."""
    found = [line.lstrip("#").strip() for line in lines(page) if re.match("#{1,4} ", line)]
    words = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in found]
    return {re.sub(r"\s", "-", heading) for heading in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall("\n".join(lines(page))):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in headings(file)):
            broken.append(target)
    assert broken == []


def test_pages_that_the_code_names_exist() -> None:
    folders = ("planner", "rules", "executor", "optimizer", "golden_plans", "dovetail")
    files = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".plan", ".html")
    ]
    named = {name for path in files for name in IN_CODE.findall(path.read_text(encoding="utf-8"))}
    assert len(named) > 3
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
