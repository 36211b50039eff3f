"""The version stands in one place; the changelog and the pages name the same."""

from __future__ import annotations

import re
from pathlib import Path

import tomllib

from dovetail.planner.version import VERSION

ROOT = Path(__file__).parents[1]
MINOR = VERSION.rpartition(".")[0]


def test_the_package_has_the_version_of_the_code() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in settings["project"]
    named = settings["tool"]["hatch"]["version"]
    found = re.search(named["pattern"], (ROOT / named["path"]).read_text(encoding="utf-8"))
    assert found
    assert found["version"] == VERSION


def test_the_changelog_has_the_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(VERSION)} \(\d{{4}}-\d\d-\d\d\)", headings[1])


def test_pages_name_the_minor_version() -> None:
    for name in ("README.md", "SECURITY.md"):
        assert re.search(rf"\b{re.escape(MINOR)}\b", (ROOT / name).read_text(encoding="utf-8")), name
