"""The command line in this process."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from dovetail.optimizer.cli.main import app


def dovetail(*args: object, stdin: str | None = None) -> Any:
    """What a command answers: exit code, stdout, stderr."""
    return CliRunner().invoke(app, [str(a) for a in args], input=stdin)
