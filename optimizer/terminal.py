"""Terminal output of the command line: tables and JSON to stdout; progress, notes, warnings and errors to stderr."""

from __future__ import annotations

import base64
import json
import logging
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 10_000


def stdout_console() -> Console:
    """Create a console on stdout; it does not wrap if stdout is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else WIDE, highlight=False, soft_wrap=False)


def page_console() -> Console:
    """Create a console on stdout that wraps prose: as wide as the terminal, or as ``COLUMNS`` or 110 in a pipe."""
    return Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 110, highlight=False)


def stderr_console() -> Console:
    """Create a console on stderr."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_note(text: str) -> None:
    """Print a dim line to stderr."""
    stderr_console().print(Text(escape_control_characters(text), style="dim"))


def print_warnings(warnings: Iterable[object]) -> None:
    """Print each warning on a line of stderr."""
    for warning in warnings:
        stderr_console().print(Text.assemble(("warning: ", "bold yellow"), escape_control_characters(str(warning))))


class WarningHandler(logging.Handler):
    """Prints what a logger warns of."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record on a line of stderr."""
        print_warnings([record.getMessage()])


def exit_with_error(text: str, code: int) -> NoReturn:
    """Print an error message to stderr and exit with a code."""
    print_error(text)
    raise typer.Exit(int(code))


def print_error(text: str) -> None:
    """Print an error message to stderr."""
    stderr_console().print(Text.assemble(("error: ", "bold red"), escape_control_characters(text)))


_LONGEST = 8_000  # characters of a message


def escape_control_characters(text: str) -> str:
    """Replace the control characters of a message with escapes, and cut a very long message."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} … ({len(shown):,} letters)"


@contextmanager
def show_status(text: str) -> Iterator[Callable[[str], object]]:
    """Show a spinner with a text while the block runs, if stderr is a terminal; yields what shows another text."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    # A copy of stderr, because stderr is redirected while Spark starts.
    with os.fdopen(os.dup(sys.stderr.fileno()), "w") as terminal, Console(file=terminal).status(f"{text} …") as status:
        yield lambda text: status.update(f"{text} …")


def format_seconds(amount: float) -> str:
    """Format a duration in a unit that suits its size.

    >>> [format_seconds(s) for s in (0.0123, 2.34, 75, 3300, 12000, 1e6)]
    ['12 ms', '2.3 s', '75 s', '55 minutes', '3.3 hours', '11.6 days']
    """
    if amount < 0.9995:
        return f"{amount * 1000:.0f} ms"
    if amount < 9.95:
        return f"{amount:.1f} s"
    if amount < 600:
        return f"{amount:.0f} s"
    if amount < 7200:
        return f"{amount / 60:.0f} minutes"
    return f"{amount / 3600:.1f} hours" if amount < 172_800 else f"{amount / 86_400:,.1f} days"


def print_rows(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows under columns of (name, type) to stdout: a table, or a block for each row where it would not fit."""
    console = stdout_console()
    if not rows or (len(columns) * (_NARROWEST + 2) - 2 <= console.width):
        console.print(build_rows_table(columns, rows))
        return
    for number, row in enumerate(rows, 1):
        console.print(Text(f"row {number}", style="bold"))
        for (name, _), value in zip(columns, row, strict=True):
            console.print(Text.assemble((f"  {name}: ", "dim"), _cell(value)), overflow="fold")


_NARROWEST = 8  # characters of a column of a table


def new_table() -> Table:
    """Create a table with a line below its header, and no other."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")


def build_rows_table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any]]) -> Table:
    """Build a table of rows under columns of (name, type): numbers align right, NULL is dim."""
    table = new_table()
    for name, kind in columns:
        right = kind.split("(")[0] in _NUMBERS
        table.add_column(Text(name), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return table


_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double", "decimal"})


def _cell(value: Any) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    plain = to_json_value(value)
    return Text(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))


def print_json(value: Any) -> None:
    """Print a value as JSON to stdout."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def to_json_value(value: Any) -> Any:
    """Convert a value of a row to JSON; a value that JSON cannot represent exactly becomes text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case list() | dict():
            return value
    return str(value)
