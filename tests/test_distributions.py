"""What the sdist and the wheel hold, and that the wheel works without the checkout, PySpark and the extras."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from dist_main import placeholder_problem
from distributions import ROOT, SMOKE, build, write_workload
from dovetail.optimizer.report import PLACEHOLDER
from dovetail.planner.version import VERSION
from licenses_main import PAGE, closure, packages
from test_bare_install import OPTIONAL

pytest.importorskip("hatchling")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))[1]


def test_the_wheel_has_all_files_of_its_packages_and_no_others(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        described = Parser().parsestr(archive.read(metadata).decode())
    assert {name.partition("/")[0] for name in names} == {"dovetail"}
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    beside = ("executor/", "golden_plans/", "optimizer/", "planner/", "rules/")
    here = {f"dovetail/{path}" for path in tracked.split("\0") if path.startswith(beside)}
    here |= {path for path in tracked.split("\0") if path.startswith("dovetail/") and (ROOT / path).is_file()}
    left_out = ("dovetail/golden_plans/cases/", "dovetail/golden_plans/catalogs/")
    assert names == {path for path in here if not path.startswith(left_out)}
    assert described["Version"] == VERSION
    assert described["License-Expression"] == "Apache-2.0"


def test_a_wheel_with_the_placeholder_is_not_published(wheel: Path, tmp_path: Path) -> None:
    assert "no address of the issue tracker" in placeholder_problem(wheel)
    published = tmp_path / "other.whl"
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(published, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(PLACEHOLDER.encode(), b"https://example.org/"))
    assert placeholder_problem(published) == ""


def test_a_wheel_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    write_workload(tmp_path)
    for args, expected in SMOKE:
        code = (
            f"import sys; sys.modules.update(dict.fromkeys({[*OPTIONAL, 'pyspark', 'py4j']!r})); "
            f"sys.path[:0] = [{str(site)!r}]; sys.argv = ['dovetail', *{args!r}]; "
            "import dovetail.optimizer.cli.main as cli; "
            f"assert cli.__file__.startswith({str(site)!r}); cli.main()"
        )
        command = [sys.executable, "-P", "-c", code]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout, done.stdout


def test_the_page_of_licenses_has_every_package() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in packages() if f"| {name} | " not in page] == []
    assert "| see the package |" not in page


def test_the_packages_that_a_package_requires() -> None:
    assert {"rich", "markdown-it-py", "mdurl", "pygments"} <= closure(["rich>=13.7"])
    assert closure(["dovetail[html]"]) == set()
