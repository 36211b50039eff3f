"""``dovetail exec``: replaces this process with a Python program whose sessions plan their SQL."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from dovetail.optimizer.failures import located
from dovetail.optimizer.options import Options
from dovetail.planner.errors import EnvironmentProblem, InputError


def exec_program(
    program: list[str], module: str | None, *, options: Mapping[str, str], verbose: bool, frames: bool
) -> None:
    """Run a file or a module with its arguments.  Raises ``InputError`` if there is none, ``OptionError``."""
    with located("--option"):
        Options.from_mapping(dict(options))
    if module is None and not program:
        raise InputError("name a Python program, as `dovetail exec job.py`, or a module, as `dovetail exec -m NAME`")
    if module is None and not Path(program[0]).is_file():
        raise InputError(f"there is no file {program[0]!r}; name a Python program, or a module with -m")
    if module is not None and not _is_module(module):
        raise InputError(f"there is no module {module!r} to run; name one that `python -m` runs")
    if find_spec("pyspark") is None:
        raise EnvironmentProblem("PySpark is not installed", remedy="pip install pyspark")
    words = [*(["--verbose"] if verbose else []), *(["--frames"] if frames else [])]
    words += [word for name, value in options.items() for word in ("--option", f"{name}={value}")]
    words += [*(["-m", module] if module is not None else []), *program]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "dovetail.program", *words])


def _is_module(name: str) -> bool:
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m` does
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False
    finally:
        del sys.path[0]
