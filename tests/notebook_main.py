"""Runs examples/notebook.ipynb and stores what its cells print, as text: ``python tests/notebook_main.py``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"
_LONGEST_TABLE = 10_000  # characters of HTML: tables of rows are stored, pages of plans are not


def main() -> int:
    """Run the cells and write the notebook again; return 1 if a cell fails."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    shell: Any = InteractiveShell(  # type: ignore[no-untyped-call]
        config=Config({"HistoryManager": {"enabled": False}})
    )
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        with capture_output(stdout=False, stderr=False, display=False):
            done = shell.run_cell("".join(cell["source"]), silent=False, store_history=False)
        if not done.success:
            print(f"cell {number} fails: {done.error_in_exec or done.error_before_exec}")
            return 1
        cell["execution_count"] = number
        cell["outputs"] = [] if done.result is None else [_output(done.result, number)]
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def _output(result: Any, number: int) -> dict[str, Any]:
    text = result.explain("trace") if hasattr(result, "explain") and hasattr(result, "rules") else repr(result)
    data = {"text/plain": text.splitlines(keepends=True)}
    html = result._repr_html_() if hasattr(result, "_repr_html_") else None
    if html and len(html) < _LONGEST_TABLE:
        data["text/html"] = html.splitlines(keepends=True)
    return {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}


if __name__ == "__main__":
    sys.exit(main())
