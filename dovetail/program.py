"""Runs a Python program whose sessions plan their SQL, and with ``--frames`` their DataFrames.

``dovetail exec`` starts it, as ``python -m dovetail.program [--verbose] [--frames] [--option NAME=VALUE]…
FILE|-m MODULE ARGS…``.
The program sees the arguments, the path and the exit code that it has without Dovetail.
"""

from __future__ import annotations

import logging
import os
import runpy
import sys
from pathlib import Path

from dovetail import install_on_new_sessions

VERBOSE, FRAMES, OPTION = "--verbose", "--frames", "--option"


def main(given: list[str]) -> None:
    """Run the program; what it raises goes through."""
    if given[0] == VERBOSE:
        _log_to_stderr()
        given = given[1:]
    frames = given[0] == FRAMES
    if frames:
        given = given[1:]
    options: dict[str, str] = {}
    while given[0] == OPTION:
        name, _, value = given[1].partition("=")
        options[name] = value
        given = given[2:]
    install_on_new_sessions(frames=frames, options=options)
    if given[0] == "-m":
        sys.argv = given[1:]
        sys.path[0] = os.getcwd()  # noqa: PTH109 - a string, as Python has it
        runpy.run_module(given[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = given
        sys.path[0] = str(Path(given[0]).resolve().parent)
        runpy.run_path(given[0], run_name="__main__")


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("dovetail: %(message)s"))
    log = logging.getLogger("dovetail.plan")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False  # the program may have a handler of its own for all logs


if __name__ == "__main__":
    main(sys.argv[1:])
