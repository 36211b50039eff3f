"""docs/reference/commands.md has the commands, arguments and options that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.programs.commands import commands

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"


def test_the_page_is_current(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-plans"):
        PAGE.write_text(commands(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == commands(), "`python -m docs.programs` writes the page again"


def test_every_command_has_a_purpose_and_every_option_a_help() -> None:
    lines = commands().splitlines()
    assert sum(line.startswith("## dovetail ") for line in lines) >= 11
    assert [line for line in lines if line.startswith("| `") and line.endswith("|  |")] == []
