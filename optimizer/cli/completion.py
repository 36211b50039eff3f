"""Completion in shells: the scripts, and the answers to them."""

from __future__ import annotations

import os
from dataclasses import fields
from enum import Enum
from typing import Any

import typer.completion

from dovetail.optimizer.options import Options

_VARIABLE = "_DOVETAIL_COMPLETE"  # the name that click derives from that of the program
_COMPLETION: Any = typer.completion  # its functions have no public names

Shell = Enum("Shell", {"bash": "bash", "zsh": "zsh", "fish": "fish"}, type=str)


def completion_script(shell: str) -> str:
    """Return the script that a shell runs at its start; it calls this program for each completion."""
    return str(_COMPLETION.get_completion_script(prog_name="dovetail", complete_var=_VARIABLE, shell=shell))


def complete_option(incomplete: str) -> list[str]:
    """The options of ``--option`` that begin with a text, each with its equals sign."""
    return [f"{field.name}=" for field in fields(Options) if field.name.startswith(incomplete)]


def prepare_completion() -> None:
    """Prepare to answer a shell, if one of these scripts has started this process."""
    if _VARIABLE in os.environ:
        _COMPLETION.completion_init()
