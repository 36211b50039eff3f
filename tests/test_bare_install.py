"""Imports as users have them: without the extras, without PySpark, beside modules of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

ROOT = Path(__file__).parents[1]
OPTIONAL = [
    "adbc_driver_manager", "adbc_driver_postgresql", "duckdb", "grpc", "hypothesis", "jinja2", "numpy", "pandas",
    "pyarrow", "pytest",
]  # fmt: skip


def run(code: str, *, without: list[str], folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run code in a Python of its own, without some packages; the project is on its path, after ``folder``."""
    missing = f"import sys; sys.modules.update(dict.fromkeys({without!r})); sys.path[:0] = [{str(folder)!r}]; "
    path = f"sys.path.append({str(ROOT)!r}); "
    return subprocess.run(
        [sys.executable, "-P", "-c", missing + path + code], capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize(
    "module", ["dovetail", "optimizer", "optimizer.cli", "optimizer.advise.event_log", "golden_plans"]
)
def test_imports_without_the_extras_and_without_pyspark(module: str) -> None:
    done = run(f"import {module}", without=[*OPTIONAL, "pyspark", "py4j"])
    assert done.returncode == 0, done.stderr


def test_plans_without_pyspark() -> None:
    done = run("from optimizer.cli import main; sys.argv = ['dovetail', 'rules']; main()", without=["pyspark", "py4j"])
    assert done.returncode == 0, done.stderr
    assert "band_join" in done.stdout


def test_event_logs_name_the_library_that_is_missing() -> None:
    path = ROOT / "tests" / "event_logs" / "without_adaptive.zstd"
    code = f"from pathlib import Path; from optimizer.advise.event_log import run; sys.exit(run(Path({str(path)!r})))"
    done = run(code, without=["zstandard"])
    assert done.returncode == 2
    assert "the library zstandard is missing. Install it with: pip install 'dovetail[event-log]'." in done.stderr


def test_the_command_line_names_what_is_missing(tmp_path: Path) -> None:
    query = tmp_path / "q.sql"
    query.write_text("SELECT 1")
    code = (
        "import importlib.util as u; real = u.find_spec; "
        "u.find_spec = lambda name, *a: None if name == 'pyspark' else real(name, *a); "
        f"from optimizer.cli import main; sys.argv = ['dovetail', 'run', {str(query)!r}]; main()"
    )
    done = run(code, without=["py4j"])
    assert done.returncode != 0
    assert done.stderr.startswith("error: Dovetail needs PySpark 4.0 or newer: not installed; install it with `pip")


def test_a_page_without_jinja_names_the_extra() -> None:
    code = (
        "from optimizer.plan import Plan; plan = Plan('SELECT 1', None, ()); assert plan._repr_html_() is None; "
        "print(plan.explain()); plan.explain('html')"
    )
    done = run(code, without=["jinja2"])
    assert done.stdout
    assert done.stderr.splitlines()[-1] == (
        "planner.errors.EnvironmentProblem: Pages need Jinja, which is not installed; install it with "
        "`pip install jinja2`"
    )


def test_one_name_has_all_public_names() -> None:
    import dovetail
    import optimizer

    assert {name: getattr(dovetail, name) for name in dovetail.__all__} == {
        name: getattr(optimizer, name) for name in optimizer.__all__
    }


@pytest.mark.parametrize("name", ["optimizer", "rules", "planner"])
@pytest.mark.parametrize("kind", ["module", "package", "folder"])
def test_a_module_of_the_user_with_one_of_our_names(tmp_path: Path, name: str, kind: str) -> None:
    if kind == "module":
        place = tmp_path / f"{name}.py"
        place.touch()
    else:
        place = tmp_path / name
        place.mkdir()
        if kind == "package":
            place /= "__init__.py"
            place.touch()
    done = run("import dovetail", without=[], folder=tmp_path)
    if kind == "folder":  # a folder without __init__.py comes last on Python's path
        assert done.returncode == 0, done.stderr
        return
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        f"ImportError: Dovetail's package {name} cannot be imported: Python finds {place}; "
        f"rename your own module {name}, or start Python in another folder"
    )


def test_the_wheel_has_every_package() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    named = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks", "examples"}
    assert named == set(packages["packages"])
