"""The pytest plugin: collects ``*.plan`` files, compares plans, and writes them with ``--update-plans``.

Every pytest run of a user loads this module, so it imports the optimizer when the first case runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_UPDATED = pytest.StashKey[list[str]]()
_CASES = pytest.StashKey[list[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-plans``."""
    parser.getgroup("dovetail").addoption(
        "--update-plans",
        action="store_true",
        help="write the plans of .plan files below their cut; refuses a plan that breaks a claim",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep a list of what was written."""
    config.stash[_UPDATED] = []
    config.stash[_CASES] = []


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> PlanFile | None:
    """Collect a ``.plan`` file named on the command line; in a folder, one that looks like a golden plan."""
    if file_path.suffix != ".plan":
        return None
    named = parent.session.isinitpath(file_path)
    return PlanFile.from_parent(parent, path=file_path) if named or _looks_like_a_case(file_path) else None


def _looks_like_a_case(path: Path) -> bool:
    """Other tools write ``.plan`` files as well; ours begin with a comment of SQL."""
    with path.open("rb") as file:
        return file.read(1024).lstrip().startswith(b"--")


class PlanFile(pytest.File):
    """A golden plan file: one test."""

    def collect(self) -> Iterator[PlanItem]:
        """Yield the test."""
        yield PlanItem.from_parent(self, name="plan")


class PlanItem(pytest.Item):
    """Compares the plan of a case with the approved one, or writes it."""

    def runtest(self) -> None:
        """Check the case; with ``--update-plans`` write its plan below the cut."""
        from dovetail.golden_plans.approval import check, update
        from dovetail.golden_plans.case import read_case

        self.config.stash[_CASES].append(self.path)
        case = read_case(self.path)
        if not self.config.getoption("update_plans"):
            check(case, self._shown)
        elif update(case):
            self.config.stash[_UPDATED].append(self._shown)

    @property
    def _shown(self) -> str:
        return _as_typed(self.path, self.config)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """An error of ours as its message; anything else as pytest shows it."""
        from dovetail.planner.errors import DovetailError

        return str(excinfo.value) if isinstance(excinfo.value, DovetailError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the test is, and what it is called."""
        return self.path, 0, f"golden plan {self.path.stem}"


def _as_typed(path: Path, config: pytest.Config) -> str:
    """A path as one would type it."""
    here = config.invocation_params.dir
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Bring the summaries above the updated cases up to date."""
    config = session.config
    cases = config.stash[_CASES]
    if not config.getoption("update_plans") or not cases:
        return
    from dovetail.golden_plans.summary import summaries_above, write_summary

    for path in summaries_above(cases):
        if write_summary(path):
            config.stash[_UPDATED].append(_as_typed(path, config))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """List the written plans, so that a person reviews them."""
    if updated := config.stash[_UPDATED]:
        terminalreporter.section("plans written: read them before you commit")
        for path in sorted(updated):
            terminalreporter.line(path)
