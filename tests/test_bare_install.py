"""Imports as users have them: without the extras, without PySpark, beside modules of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("module", ["", ".optimizer.cli.main", ".optimizer.commands.event_log", ".golden_plans"])
def test_imports_without_the_extras_and_without_pyspark(module: str) -> None:
    done = run(f"import dovetail{module}", without=[*OPTIONAL, "pyspark", "py4j"])
    assert done.returncode == 0, done.stderr


def test_plans_without_pyspark() -> None:
    done = run(
        "from dovetail.optimizer.cli.main import main; sys.argv = ['dovetail', 'rules']; main()",
        without=["pyspark", "py4j"],
    )
    assert done.returncode == 0, done.stderr
    assert "band_join" in done.stdout


def test_event_logs_name_the_library_that_is_missing() -> None:
    path = ROOT / "tests" / "event_logs" / "without_adaptive.zstd"
    run_it = f"sys.exit(run_event_log(Path({str(path)!r})))"
    code = f"from pathlib import Path; from dovetail.optimizer.commands.event_log import run_event_log; {run_it}"
    done = run(code, without=["zstandard"])
    assert done.returncode == 2
    assert "the library zstandard is missing. Install it with: pip install zstandard." in done.stderr


def test_the_command_line_names_what_is_missing(tmp_path: Path) -> None:
    query = tmp_path / "q.sql"
    query.write_text("SELECT 1")
    code = (
        "import importlib.util as u; real = u.find_spec; "
        "u.find_spec = lambda name, *a: None if name == 'pyspark' else real(name, *a); "
        f"from dovetail.optimizer.cli.main import main; sys.argv = ['dovetail', 'run', {str(query)!r}]; main()"
    )
    done = run(code, without=["py4j"])
    assert done.returncode != 0
    assert done.stderr.startswith("error: Dovetail needs PySpark 4.0 or newer: not installed; install it with `pip")


def test_a_page_without_jinja_names_the_extra() -> None:
    code = (
        "from dovetail.optimizer.planning.plan import Plan; plan = Plan('SELECT 1', None, ()); "
        "assert plan._repr_html_() is None; "
        "print(plan.explain()); plan.explain('html')"
    )
    done = run(code, without=["jinja2"])
    assert done.stdout
    assert done.stderr.splitlines()[-1] == (
        "dovetail.planner.errors.EnvironmentProblem: Pages need Jinja, which is not installed; install it with "
        "`pip install jinja2`"
    )


def test_one_name_has_all_public_names() -> None:
    import dovetail
    from dovetail import optimizer

    assert {name: getattr(dovetail, name) for name in dovetail.__all__} == {
        name: getattr(optimizer, name) for name in optimizer.__all__
    }


@pytest.mark.parametrize("kind", ["module", "package"])
def test_modules_of_the_user_with_the_names_of_our_packages(tmp_path: Path, kind: str) -> None:
    for name in ("executor", "golden_plans", "optimizer", "planner", "rules"):
        place = tmp_path / (f"{name}.py" if kind == "module" else f"{name}/__init__.py")
        place.parent.mkdir(exist_ok=True)
        place.write_text("raise ImportError('a module of the user')")
    done = run(
        "from dovetail import plan_sql, Optimizer; import dovetail.golden_plans.plugin", without=[], folder=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_every_package_has_a_link_below_dovetail() -> None:
    named = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"dovetail", "tests", "benchmarks", "examples"}
    links = {path.name: path.resolve() for path in (ROOT / "dovetail").iterdir() if path.is_dir() and path.is_symlink()}
    assert links == {name: ROOT / name for name in named}
