"""The command line at terminals of every width, in pipes, and in shells that complete its commands."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from command_line import dovetail
from dovetail.optimizer import terminal
from dovetail.planner.version import VERSION

ROOT = Path(__file__).parents[1]
LOG = ROOT / "tests" / "event_logs" / "eventlog_v2_planted"
COMMANDS = (
    "demo run explain rewrite verify report advise shadow-report stream materialize exec rules state doctor completion"
).split()  # fmt: skip
ESCAPE = "\x1b"
COLOR = re.compile(r"\x1b\[(\d+;)*(3\d|4\d|9\d|10\d)(;\d+)*m")
PLAIN = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}


def at_a_terminal(*args: str, width: int, **variables: str) -> str:
    """What a command writes at a terminal of some width."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        command = [sys.executable, "-m", "dovetail", *args]
        os.execve(sys.executable, command, {**PLAIN, "TERM": "xterm-256color", **variables})
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    written = b""
    try:
        while data := os.read(fd, 65536):
            written += data
    except OSError:  # the terminal is closed
        pass
    os.waitpid(pid, 0)
    os.close(fd)
    return written.decode().replace("\r\n", "\n")


def in_a_pipe(*args: str, package: str = "dovetail", **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", package, *args]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=600, env={**PLAIN, **variables}
    )


@pytest.mark.parametrize("args", [["rules"], ["--help"], ["stream", "--help"], ["advise", "--event-log", str(LOG)]])
def test_forty_columns(args: Any) -> None:
    written = at_a_terminal(*args, width=40)
    assert ESCAPE in written
    report = written[written.find("  1. ") :] if LOG.name in written else written  # a progress bar comes first
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", report).splitlines()
    assert lines
    assert max(map(len, lines)) <= 40


@pytest.mark.parametrize("args", [["rules"], ["--help"]])
def test_no_color(args: Any) -> None:
    assert COLOR.search(at_a_terminal(*args, width=80))
    assert not COLOR.search(at_a_terminal(*args, width=80, NO_COLOR="1"))


@pytest.mark.parametrize("args", [["rules"], ["--help"], ["nothing"], ["run", "gone.sql"]])
def test_pipes_have_no_escapes(args: Any) -> None:
    done = in_a_pipe(*args, GITHUB_ACTIONS="true")
    assert ESCAPE not in done.stdout + done.stderr


def test_the_width_of_a_pipe() -> None:
    assert max(map(len, in_a_pipe("rules", COLUMNS="40").stdout.splitlines())) <= 40
    assert max(map(len, in_a_pipe("rules").stdout.splitlines())) > 80


@pytest.mark.parametrize(("width", "wrapped"), [(40, False), (20, True)])
def test_rows_that_do_not_fit_are_blocks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int, wrapped: bool
) -> None:
    monkeypatch.setattr(terminal, "stdout_console", lambda: Console(width=width, highlight=False))
    columns = [("id", "bigint"), ("name", "string"), ("none", "int")]
    terminal.print_rows(columns, [(1, "a [b] c", None), (2, "x" * 30, 3)])
    written = capsys.readouterr().out
    assert max(map(len, written.splitlines())) <= width
    assert ("row 2" in written) == wrapped
    if wrapped:
        assert written.startswith("row 1\n  id: 1\n  name: a [b] c\n  none: NULL\nrow 2\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_an_example(command: str) -> None:
    help_ = " ".join(dovetail(command, "--help").stdout.split())
    assert f"Example: dovetail {command}" in help_


def test_commands_that_share_options_describe_them_alike() -> None:
    def options(command: str) -> set[str]:
        return set(re.findall(r"(?<= )--[a-z-]+", dovetail(command, "--help").stdout))

    shared = {"--table", "--catalog", "--key", "--option", "--force", "--master", "--remote", "--engine", "--conf"}
    for command in ("run", "explain", "rewrite", "verify"):
        assert {"--sql", *shared} <= options(command)
    assert shared <= options("advise")
    assert "--sql" not in options("advise")
    for command in ("stream", "materialize"):
        assert not {"--catalog", "--key", "--remote", "--engine"} & options(command)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    done = dovetail("completion", shell)
    assert done.exit_code == 0
    assert "_DOVETAIL_COMPLETE" in done.stdout
    assert dovetail("completion", "csh").exit_code == 2


def test_a_shell_gets_completions() -> None:
    asked = {"_DOVETAIL_COMPLETE": "complete_bash", "COMP_WORDS": "dovetail re", "COMP_CWORD": "1"}
    assert in_a_pipe(**asked).stdout.split() == ["rewrite", "report"]
    asked |= {"COMP_WORDS": "dovetail run --ov", "COMP_CWORD": "2"}
    assert in_a_pipe(**asked).stdout.split() == ["--overwrite"]
    asked |= {"COMP_WORDS": "dovetail run --option level_", "COMP_CWORD": "3"}
    assert in_a_pipe(**asked).stdout.split() == ["level_spread=", "level_reach="]


def test_both_packages_are_the_command() -> None:
    assert in_a_pipe("--version").stdout == in_a_pipe("--version", package="optimizer").stdout == f"{VERSION}\n"
