"""What the doctor says of machines that lack something."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from dovetail.optimizer import doctor
from dovetail.planner.errors import EnvironmentProblem

OLD = 'java version "1.8.0_392"\nJava(TM) SE Runtime Environment (build 1.8.0_392-b08)'


def program(path: Path, *, says: str, code: int = 0) -> Path:
    """Write a program that prints on stderr, as `java -version` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n/bin/cat >&2 <<'END'\n{says}\nEND\nexit {code}\n")
    path.chmod(0o755)
    return path


def alone(code: str, *options: str) -> str:
    """Run code with nothing imported but the file of the doctor, as the Makefile does."""
    code = f"import runpy; doctor = runpy.run_path({doctor.__file__!r}); {code}"
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A machine with nothing on PATH and nothing set; the directory that is its PATH."""
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_DIRS"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "bin"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    return path


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', (17, "17.0.15")),
        ('openjdk version "21" 2023-09-19', (21, "21")),
        ('openjdk version "24-ea" 2025-03-18', (24, "24-ea")),
        ('openjdk version "11.0.22" 2024-01-16 LTS', (11, "11.0.22")),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\njava version "1.8.0_392"', (8, "1.8.0_392")),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_java_versions_of_every_spelling(said: Any, version: Any) -> None:
    assert doctor.java_version(said) == version


def test_no_java_at_all(bare: Any) -> None:
    check = doctor.java()
    assert not check.ok
    assert check.found == "no java on PATH, and JAVA_HOME is not set"
    with pytest.raises(EnvironmentProblem, match=r"^Spark needs Java 17 or newer: no java .*; install a JDK"):
        doctor.require_java()


def test_an_old_java_on_path(bare: Any) -> None:
    java = program(bare / "java", says=OLD)
    assert doctor.java().found == f"1.8.0_392 at {java} is older than 17"
    with pytest.raises(EnvironmentProblem) as caught:
        doctor.require_java()
    assert "older than 17; install a JDK 17 or newer" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_java_that_is_new_enough(bare: Any) -> None:
    java = program(bare / "java", says='openjdk version "21.0.2" 2024-01-16')
    assert doctor.java() == doctor.Check("Java", ok=True, found=f"21.0.2 at {java}", remedy="")
    doctor.require_java()


def test_a_java_that_only_explains_itself(bare: Any) -> None:
    program(bare / "java", says="Unable to locate a Java Runtime.", code=1)
    check = doctor.java()
    assert not check.ok
    assert check.found.endswith("prints no version, but: Unable to locate a Java Runtime.")


def test_java_home_comes_before_path(bare: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(bare / "java", says='openjdk version "21.0.2"')
    old = program(tmp_path / "jdk8" / "bin" / "java", says=OLD)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk8"))
    assert doctor.java().found == f"1.8.0_392 at {old} is older than 17"


def test_a_java_home_without_java_is_not_passed_over(
    bare: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(bare / "java", says='openjdk version "21.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    check = doctor.java()
    assert not check.ok
    assert check.found == f"JAVA_HOME is {tmp_path / 'gone'}, which has no bin/java"
    assert "unset it" in check.remedy


def test_workers_are_this_python_unless_told_otherwise(bare: Any) -> None:
    check = doctor.workers()
    assert check.ok
    assert check.found.endswith(f"at {sys.executable}")


def test_workers_of_another_python(bare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    other = program(bare / "python2", says="2.7")
    monkeypatch.setenv("PYSPARK_PYTHON", "python2")
    check = doctor.workers()
    assert not check.ok
    assert check.found.startswith(f"Python 2.7 at {other}, but this is Python 3.")


def test_workers_that_cannot_start(bare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "python-that-is-gone")
    check = doctor.workers()
    assert not check.ok
    assert check.found == "python-that-is-gone cannot be run"
    program(bare / "broken", says="Segmentation fault", code=139)
    monkeypatch.setenv("PYSPARK_PYTHON", "broken")
    assert doctor.workers().found.startswith("no working Python at ")


def test_pyspark_is_read_without_importing_it() -> None:
    assert alone("import sys; assert doctor['pyspark']().ok; print('pyspark' in sys.modules)") == "False\n"


@pytest.mark.parametrize(("version", "ok"), [("4.0.0", True), ("4.1.0.dev3", True), ("10.2.0", True), ("3.5.7", False)])
def test_pyspark_must_be_new_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: Any, ok: Any) -> None:
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "version.py").write_text(f'__version__: str = "{version}"\n')
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    check = doctor.pyspark()
    assert (check.ok, check.found) == (ok, version)


def test_pyspark_inside_the_zip_of_spark_submit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "zipped" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "version.py").write_text('__version__: str = "4.0.1"\n')
    archive = shutil.make_archive(str(tmp_path / "pyspark"), "zip", tmp_path / "zipped")
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(archive)
    assert doctor.pyspark().found == "4.0.1"


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert doctor.pyspark().found == "not installed"


@pytest.mark.parametrize(("free", "ok"), [(2 << 30, True), ((2 << 30) - 1, False), (None, True)])
def test_memory(monkeypatch: pytest.MonkeyPatch, free: Any, ok: Any) -> None:
    monkeypatch.setattr(doctor, "available_memory", lambda: free)
    assert doctor.memory().ok is ok


def test_memory_within_a_container_counts_what_is_only_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n",
        "/sys/fs/cgroup/memory.max": f"{4 << 30}\n",
        "/sys/fs/cgroup/memory.current": f"{3 << 30}\n",
        "/sys/fs/cgroup/memory.stat": f"anon 5\ninactive_file {1 << 30}\nactive_file {1 << 30}\n",
    }
    monkeypatch.setattr(doctor, "text_of", files.get)
    assert doctor.available_memory() == 3 << 30
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert doctor.available_memory() == 8 << 30


def test_scratch_that_spark_would_make_itself(bare: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}, {tmp_path / 'not' / 'yet'}")
    assert doctor.scratch().ok
    assert not (tmp_path / "not").exists()


def test_scratch_that_cannot_be_written(bare: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "a file"
    blocked.touch()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},{blocked}")
    check = doctor.scratch()
    assert not check.ok
    assert "cannot be written" in check.found
    assert "SPARK_LOCAL_DIRS" in check.remedy


def test_scratch_that_is_nearly_full(bare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    check = doctor.scratch()
    assert not check.ok
    assert check.found == f"0.0 GiB free in {tempfile.gettempdir()}"


def test_every_check_is_made_once() -> None:
    checks = doctor.diagnose()
    assert [check.name for check in checks] == [
        "Java", "Python", "PySpark", "Python workers", "Memory", "Scratch directory",
    ]  # fmt: skip
    assert all(check.ok == (check.remedy == "") for check in checks)


def test_a_check_reads_as_one_line() -> None:
    assert str(doctor.Check("Java", ok=True, found="17 at /java", remedy="")) == "Java: 17 at /java"
    assert str(doctor.Check("Java", ok=False, found="none", remedy="install one")) == "Java: none; install one"


def test_the_doctor_can_be_asked_before_anything_is_installed() -> None:
    assert alone("print(doctor['java']().name)", "-I", "-S") == "Java\n"
