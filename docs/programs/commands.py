"""The page of commands: every argument and option of ``dovetail``, from the code of the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import EnumType
from typing import Any

import typer

from dovetail.optimizer.cli.main import app

_HEAD = """# Commands: reference

Every argument and option of `dovetail`, as `dovetail COMMAND --help` prints them.
[The command line](../command-line.md) has examples, exit codes and catalogs.
`python -m docs.programs` writes this page.
"""


def commands() -> str:
    """Return the page as Markdown."""
    group: Any = typer.main.get_command(app)
    return "\n".join([_HEAD, *(line for name, command in group.commands.items() for line in _command(name, command))])


def _command(name: str, command: Any) -> Iterator[str]:
    shown = [parameter for parameter in command.params if not parameter.hidden]
    arguments = [p.metavar or p.name.upper() for p in shown if p.param_type_name == "argument"]
    yield f"## dovetail {name}\n"
    yield f"{_text(command.help.partition(chr(12))[0])}\n"
    yield f"```\n{' '.join(['dovetail', name, *(f'[{one}]' for one in arguments), '[OPTIONS]'])}\n```\n"
    if shown:
        yield "| | default | what it does |\n| --- | --- | --- |"
        for parameter in shown:
            yield f"| {_cell(_names(parameter))} | {_default(parameter)} | {_cell(parameter.help or '')} |"
        yield ""


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    return names if parameter.is_flag else f"{names} `{parameter.metavar or _choices(parameter)}`"


def _choices(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    values: list[Any] = list(kind) if isinstance(kind, EnumType) else []
    return "|".join(str(one.value) for one in values) or "VALUE"


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required or callable(value) or value in (None, "", False, (), []):
        return ""
    return f"`{getattr(value, 'value', value)}`"


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")


def _text(text: str) -> str:
    r"""Join the lines of a help text; ``\[x]`` is how it writes brackets that are no markup."""
    return re.sub(r"\\(?=\[)", "", " ".join(text.split()))
