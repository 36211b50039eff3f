"""The cell magic ``%%dovetail``: SQL in a notebook, run, explained or verified.

    %load_ext dovetail

    %%dovetail                      the rows of a statement; --limit N, --as NAME for its DataFrame
    SELECT …

    %%dovetail explain              its plan as a page
    %%dovetail verify               its rows as written and as rewritten, compared; --measure also times both

The optimizer is the variable ``opt`` of the notebook, or a new one on the session ``spark``.  Names in braces, as in
``FROM {events}``, are DataFrames of the notebook.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NoReturn

from dovetail.optimizer.api import Optimizer
from dovetail.planner.errors import EnvironmentProblem, OptionError, plural
from dovetail.planner.explain.html.page import can_render, render_fragment

_STYLE = "text-align:left; padding:.2em .6em; vertical-align:top"


@dataclass(frozen=True, repr=False)
class Output:
    """The output of a cell: as text, and as HTML where a notebook shows it; None if there is only text."""

    text: str
    html: str | None = None

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str | None:
        return self.html


class _Parser(ArgumentParser):
    """Raises ``OptionError`` instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise OptionError(f"%%dovetail: {message}; {self.format_usage().strip()}")


def _parser() -> ArgumentParser:
    parser = _Parser(prog="%%dovetail", add_help=False)
    parser.add_argument("action", nargs="?", choices=("run", "explain", "verify"), default="run")
    parser.add_argument("--limit", type=int, default=20, metavar="N")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--as", dest="name", metavar="NAME")
    return parser


def register_magic(ipython: Any) -> None:
    """Register the magic; ``%load_ext dovetail`` calls this."""

    def dovetail(line: str, cell: str) -> Output:
        """Run, explain or verify the SQL of a cell: %%dovetail ACTION [--limit N] [--measure] [--as NAME]."""
        return run_cell(line, cell, ipython.user_ns)

    ipython.register_magic_function(dovetail, "cell", "dovetail")


def run_cell(line: str, cell: str, variables: dict[str, Any]) -> Output:
    """Run the magic over the variables of a notebook; ``--as`` assigns the result to one.

    Raises ``OptionError`` for a wrong line, ``EnvironmentProblem`` if there is no session, and what Spark raises.
    """
    given = _parser().parse_args(line.split())
    if given.limit < 0 or (given.name and not given.name.isidentifier()):
        raise OptionError("%%dovetail: --limit takes a number from 0 on, and --as the name of a variable")
    optimizer, frames = _optimizer(variables), _frames(cell, variables)
    result: Any
    match given.action:
        case "explain":
            result = optimizer.plan(cell, **frames)
            output = Output(result.explain("trace"), result._repr_html_())
        case "verify":
            if frames:
                name = next(iter(frames))
                raise OptionError(f"%%dovetail verify takes no DataFrame in braces; make {name} a temporary view")
            result = optimizer.verify(cell, measure=given.measure)
            page = render_fragment(optimizer.plan(cell).explanation(result)) if result.runs and can_render() else None
            output = Output(str(result), page)
        case _:
            result = optimizer.sql(cell, **frames)
            rows = result.limit(given.limit + 1).collect()
            output = _show(result.columns, rows[: given.limit], more=len(rows) > given.limit)
    if given.name:
        variables[given.name] = result
    return output


def _optimizer(variables: Mapping[str, Any]) -> Optimizer:
    """The optimizer of the notebook."""
    if isinstance(found := variables.get("opt"), Optimizer):
        return found
    if (session := variables.get("spark")) is None:
        raise EnvironmentProblem(
            "%%dovetail finds no Spark session",
            remedy="assign a session to the variable `spark`, or an Optimizer to `opt`",
        )
    return Optimizer(session)


def _frames(cell: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The DataFrames of the notebook that a statement names in braces."""
    names = [name for name in re.findall(r"\{(\w+)\}", cell) if hasattr(variables.get(name), "createOrReplaceTempView")]
    return {name: variables[name] for name in names}


def _show(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, more: bool) -> Output:
    """Format rows as a table."""
    cells = [["NULL" if value is None else str(value) for value in row] for row in rows]
    widths = [max(len(one), *(len(row[n]) for row in cells), 0) for n, one in enumerate(columns)]
    lines = ["  ".join(f"{one:<{width}}" for one, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    head = "  ".join(f"{one:<{width}}" for one, width in zip(columns, widths, strict=True)).rstrip()
    note = f"the first {len(rows)} rows; --limit N shows more" if more else plural(len(rows), "row")
    table = "".join(_row("td", row) for row in cells)
    return Output("\n".join([head, *lines, note]), f"<table>{_row('th', columns)}{table}</table><p>{note}</p>")


def _row(tag: str, values: Sequence[str]) -> str:
    cells = (f'<{tag} style="{_STYLE}">{escape(value)}</{tag}>' for value in values)
    return f"<tr>{''.join(cells)}</tr>"
