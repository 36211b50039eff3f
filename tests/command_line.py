"""The command line in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.testing import CliRunner

from optimizer.cli import app

if TYPE_CHECKING:
    from click.testing import Result


def dovetail(*args: object, stdin: str | None = None) -> Result:
    """What a command answers: exit code, stdout, stderr."""
    return CliRunner().invoke(app, [str(a) for a in args], input=stdin)
