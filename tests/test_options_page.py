"""docs/options.md says of every option what its docstring says, and its default.

``pytest tests/test_options_page.py --update-plans`` writes the table again.
"""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Options
from dovetail.planner.catalog.cost import Thresholds

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "options.md"
HEAD = "| option | default | what it does |\n| --- | --- | --- |\n"


def rows() -> Iterator[str]:
    """A row of the table for every option: those of Options, then the thresholds."""
    for owner in (Options, Thresholds):
        source = inspect.getsource(owner)
        body: list[Any] = ast.parse(source).body[0].body  # type: ignore[attr-defined]
        for field, said in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and field.value and isinstance(field.target, ast.Name):
                default = ast.get_source_segment(source, field.value)
                text = " ".join(ast.literal_eval(said.value).replace("``", "`").split())
                yield f"| `{field.target.id}` | `{default}` | {text} |\n"


def test_every_option_is_on_the_page(request: pytest.FixtureRequest) -> None:
    head, _, _ = PAGE.read_text().partition(HEAD)
    wanted = head + HEAD + "".join(rows())
    if request.config.getoption("--update-plans"):
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted
    assert len(list(rows())) == len(inspect.signature(Options).parameters)


@pytest.mark.parametrize("name", inspect.signature(Options).parameters)
def test_a_number_says_what_happens_when_it_grows(name: Any) -> None:
    default = inspect.signature(Options).parameters[name].default
    if isinstance(default, bool | tuple | str):
        return
    row = next(row for row in rows() if row.startswith(f"| `{name}` "))
    assert "A greater number" in row
