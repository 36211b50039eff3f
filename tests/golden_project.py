"""A user's folder with golden plans of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

import dovetail.golden_plans.planned  # noqa: F401  # else each run in this process imports all of Dovetail anew

ROOT = Path(__file__).parents[2]

CATALOG = """
[tables.points]
columns = { id = "BIGINT", x = "INT" }
[tables.intervals]
columns = { id = "BIGINT", lo = "INT", hi = "INT" }
"""
SQL = """\
SELECT p.id
FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi
"""
OR = f"-- A point in an interval, or not.\n-- catalog: line\n{SQL} OR p.id > i.lo"
BAND = f"-- A point in an interval.\n-- catalog: line\n{SQL}"


class Project:
    """A folder of a user's with golden plans of their own."""

    def __init__(self, pytester: pytest.Pytester):
        self.pytester = pytester
        self.folder = pytester.path
        self.write("catalogs/line.toml", CATALOG)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def run(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess(
            "-p", "no:dovetail", "-p", "dovetail.golden_plans.plugin", "-p", "no:cacheprovider", *args
        )

    def failure(self, *args: str) -> str:
        """What a user reads when their one case fails; never a traceback."""
        result = self.run(*args)
        result.assert_outcomes(failed=1)
        said = result.stdout.str()
        assert "Traceback" not in said
        assert "site-packages" not in said
        return said


def approve(project: Project, name: str, text: str = BAND) -> Path:
    path = project.write(name, text)
    project.run("--update-plans", name).assert_outcomes(passed=1)
    return path
