"""The pages that a program writes from the code are current: commands, packages, and the table of shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from docs.programs.__main__ import DOCS, PAGES
from docs.programs.commands import commands


@pytest.mark.parametrize(("name", "write"), PAGES.items(), ids=PAGES)
def test_the_page_is_current(request: pytest.FixtureRequest, name: str, write: Callable[[], str]) -> None:
    page = DOCS / name
    if request.config.getoption("--update-plans"):
        page.write_text(write(), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == write(), "`python -m docs.programs` writes the page again"


def test_every_command_has_a_purpose_and_every_option_a_help() -> None:
    lines = commands().splitlines()
    assert sum(line.startswith("## dovetail ") for line in lines) >= 11
    assert [line for line in lines if line.startswith("| `") and line.endswith("|  |")] == []
