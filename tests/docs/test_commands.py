"""The pages that a program writes from the code are current: commands, arguments and options; packages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from docs.programs.commands import commands
from docs.programs.packages import packages

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize(("name", "write"), [("commands.md", commands), ("packages.md", packages)])
def test_the_page_is_current(request: pytest.FixtureRequest, name: str, write: Callable[[], str]) -> None:
    page = REFERENCE / name
    if request.config.getoption("--update-plans"):
        page.write_text(write(), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == write(), "`python -m docs.programs` writes the page again"


def test_every_command_has_a_purpose_and_every_option_a_help() -> None:
    lines = commands().splitlines()
    assert sum(line.startswith("## dovetail ") for line in lines) >= 11
    assert [line for line in lines if line.startswith("| `") and line.endswith("|  |")] == []
