"""How the command line says things: tables and JSON on stdout; progress, remarks and errors on stderr."""

from __future__ import annotations

import base64
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any, NoReturn

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 10_000


def out() -> Console:
    """The console on stdout; as wide as its content needs where nobody looks at it."""
    return Console(width=None if sys.stdout.isatty() else WIDE, highlight=False, soft_wrap=False)


def page() -> Console:
    """A console on stdout for text to read."""
    return Console(width=None if sys.stdout.isatty() else 110, highlight=False)


def err() -> Console:
    """The console on stderr."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def remark(text: str) -> None:
    """Say something beside the answer."""
    err().print(Text(text, style="dim"))


def warn(warnings: Iterable[object]) -> None:
    """Say what the user wrote that does not do what it asks for, a line each."""
    for warning in warnings:
        err().print(Text.assemble(("warning: ", "bold yellow"), str(warning)))


def fail(text: str, code: int) -> NoReturn:
    """Say what is wrong and leave."""
    err().print(Text.assemble(("error: ", "bold red"), text))
    raise typer.Exit(code)


@contextmanager
def status(text: str) -> Iterator[None]:
    """Show that something takes a while; only where somebody looks."""
    if not sys.stderr.isatty():
        yield
        return
    # A copy of stderr: while Spark starts, stderr itself goes elsewhere.
    with os.fdopen(os.dup(sys.stderr.fileno()), "w") as terminal, Console(file=terminal).status(f"{text} …"):
        yield


def seconds(amount: float) -> str:
    """A time as people say it.

    >>> seconds(0.0123), seconds(2.34), seconds(75), seconds(3300), seconds(12000), seconds(1e6)
    ('12 ms', '2.3 s', '75 s', '55 minutes', '3.3 hours', '11.6 days')
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


def rows_table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any]]) -> Table:
    """Rows under columns of (name, type) as a table: numbers to the right, NULL told from text."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
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
    plain = plain_value(value)
    return Text(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))


def print_json(value: Any) -> None:
    """Print a value as JSON and nothing else."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def plain_value(value: Any) -> Any:
    """A value of a row as JSON has it: what JSON cannot say to the letter becomes text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            return value.isoformat(" ")
        case date() | timedelta():
            return str(value)
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case Mapping():
            return {str(k): plain_value(v) for k, v in value.items()}
    if hasattr(value, "asDict"):
        return {name: plain_value(v) for name, v in zip(value.__fields__, value, strict=True)}
    if isinstance(value, list | tuple):
        return [plain_value(v) for v in value]
    return str(value)
