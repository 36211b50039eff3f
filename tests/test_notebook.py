"""The cell magic ``%%dovetail``, and the notebook among the examples."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dovetail import load_ipython_extension
from dovetail.optimizer.notebook import run_cell
from dovetail.optimizer.planning.plan import Plan
from dovetail.planner.errors import EnvironmentProblem, OptionError
from sessions import for_few_rows

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """IPython without a history."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    config = pytest.importorskip("traitlets.config").Config({"HistoryManager": {"enabled": False}})
    return interactive.InteractiveShell(config=config)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("plan", "%%dovetail: argument action: invalid choice: 'plan'"),
        ("--limit many", "%%dovetail: argument --limit: invalid int value: 'many'"),
        ("--limit -1", "--limit takes a number from 0 on"),
        ("--as 1", "--as the name of a variable"),
        ("run more", "%%dovetail: unrecognized arguments: more"),
    ],
)
def test_a_wrong_line_is_one_sentence(line: str, message: str) -> None:
    with pytest.raises(OptionError, match=message.replace("(", "\\(")):
        run_cell(line, "SELECT 1", {})


def test_without_a_session_the_message_says_what_to_do() -> None:
    with pytest.raises(EnvironmentProblem, match="assign a session to the variable `spark`"):
        run_cell("", "SELECT 1", {"spark": None})


def test_ipython_knows_the_magic(shell: Any) -> None:
    load_ipython_extension(shell)
    done = shell.run_cell("%%dovetail\nSELECT 1", silent=True)
    assert isinstance(done.error_in_exec, EnvironmentProblem)


def test_rows_are_text_and_escaped(spark: Any) -> None:
    variables: dict[str, Any] = {"spark": for_few_rows(spark)}
    output = run_cell(
        "--limit 2 --as found", "SELECT '<i>' AS `a&b`, if(id = 0, null, id) AS n FROM range(3)", variables
    )
    assert repr(output) == "a&b  n\n<i>  NULL\n<i>  1\nthe first 2 rows; --limit N shows more"
    html = output._repr_html_()
    assert html
    assert "&lt;i&gt;" in html
    assert "<i>" not in html
    assert variables["found"].count() == 3


def test_the_notebook_runs(spark: Any, shell: Any) -> None:
    outputs = []
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            done = shell.run_cell("".join(cell["source"]))
            done.raise_error()
            outputs.append(done.result)
    *_, explained, rows, _, verified, plan = outputs
    assert shell.user_ns["plan"].rewritten
    assert "<main" in explained._repr_html_()
    assert repr(rows).splitlines()[0].split() == ["device", "events"]
    assert repr(rows).splitlines()[-1] == "3 rows"
    assert repr(verified).startswith("same: ")
    assert isinstance(plan, Plan)
    assert plan.rewritten


def test_the_notebook_says_how_to_run_it_and_has_its_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert "jupyter lab examples/notebook.ipynb" in "".join(cells[0]["source"])
    outputs = ["".join(o["data"]["text/plain"]) for cell in cells for o in cell.get("outputs", ())]
    assert len(outputs) == 4
    assert any(re.search(r"same: [\d,]+ rows both ways; [\d.]+ s as written, [\d.]+ s rewritten", o) for o in outputs)
