"""Every whole statement on a page to follow is rewritten, as the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.offline_catalog.read_catalog import read_catalog

ROOT = Path(__file__).parents[2]
CATALOG = read_catalog(Path(__file__).with_name("pages.toml"))
PAGES = ("band-joins", "nearest", "self-joins", "lookup-joins")
BLOCK = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
# pieces of statements, and statements that Dovetail has written
NOT_WRITTEN_SO = ("…", "__dt", "CROSS JOIN LATERAL (SELECT x.id")


def statements() -> Iterator[tuple[str, str]]:
    """The whole statements of the pages: each begins at the start of a line, or after a line of remarks."""
    for page in PAGES:
        for block in BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")):
            for part in re.split(r"\n(?=SELECT)", block):
                text = part.strip().removesuffix(";")
                if text.startswith("SELECT") and not any(mark in text for mark in NOT_WRITTEN_SO):
                    yield page, text


@pytest.mark.parametrize(("page", "text"), [*statements()])
def test_a_statement_is_rewritten(page: str, text: str) -> None:
    plan = plan_sql(text, CATALOG, Options(force=True))
    assert plan.rewritten, (plan.error, plan.declined)


def test_each_page_has_some() -> None:
    assert {page for page, _ in statements()} == set(PAGES)
    assert len(list(statements())) >= 15
