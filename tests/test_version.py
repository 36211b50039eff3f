"""The version stands in one place, which pyproject.toml has or names; the changelog and the pages name the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _version() -> str:
    """The version in pyproject.toml, or in the file that it names."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if "version" in settings["project"]:
        return str(settings["project"]["version"])
    named = settings["tool"]["hatch"]["version"]
    found = re.search(named["pattern"], (ROOT / named["path"]).read_text(encoding="utf-8"))
    assert found
    return str(found["version"])


VERSION = _version()
MINOR = VERSION.rpartition(".")[0]


def test_the_changelog_has_the_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(VERSION)} \(\d{{4}}-\d\d-\d\d\)", headings[1])


def test_pages_name_the_minor_version() -> None:
    for name in ("README.md", "SECURITY.md"):
        assert re.search(rf"\b{re.escape(MINOR)}\b", (ROOT / name).read_text(encoding="utf-8")), name


def test_no_module_repeats_it() -> None:
    folders = ("dovetail", "optimizer", "rules", "planner", "golden_plans")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert [path for path in files if "__version__ =" in path.read_text(encoding="utf-8")] == []
