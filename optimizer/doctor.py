"""Checks whether this machine can run Spark: what it has, and what to do about missing parts.

Nothing here starts Spark.  At the top only the standard library is imported, so that the Makefile can call
Java before anything is installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

JAVA = 17
PYTHON = (3, 11)
PYSPARK = (4, 0)
MEMORY = 2 << 30
SCRATCH = 1 << 30


@dataclass(frozen=True)
class Check:
    """One thing Spark needs: what was found, and the way out when that is not enough."""

    name: str
    ok: bool
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}: {self.found}" if self.ok else f"{self.name}: {self.found}; {self.remedy}"


def diagnose() -> tuple[Check, ...]:
    """Look at everything a Spark session on this machine needs, in the order in which it would fail."""
    return java(), python(), pyspark(), workers(), memory(), scratch()


def require_java() -> None:
    """Raise `EnvironmentProblem` unless Spark would find a Java that it can run on."""
    _require(java(), f"Spark needs Java {JAVA} or newer")


def require_pyspark() -> None:
    """Raise `EnvironmentProblem` unless this Python has a PySpark that Dovetail knows."""
    _require(pyspark(), f"Dovetail needs PySpark {dotted(PYSPARK)} or newer")


def _require(check: Check, wanted: str) -> None:
    from dovetail.planner.errors import EnvironmentProblem

    if not check.ok:
        raise EnvironmentProblem(f"{wanted}: {check.found}", remedy=check.remedy)


def java() -> Check:
    """Find the Java that Spark's launcher takes: that of JAVA_HOME and no other, else the first on PATH."""
    examples = f"`apt-get install openjdk-{JAVA}-jdk-headless` or `brew install openjdk@{JAVA}`"
    remedy = f"install a JDK {JAVA} or newer, for example with {examples}, or point JAVA_HOME at one"
    home = os.environ.get("JAVA_HOME")
    command = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if command is None and home:
        remedy = f"point JAVA_HOME at a JDK {JAVA} or newer, or unset it to take the java on PATH"
        return Check("Java", False, f"JAVA_HOME is {home}, which has no bin/java", remedy)
    if command is None:
        return Check("Java", False, "no java on PATH, and JAVA_HOME is not set", remedy)
    printed = output(command, "-version")
    if (version := java_version(printed)) is None:
        first = printed.strip().partition("\n")[0] or "nothing"
        return Check("Java", False, f"{command} prints no version, but: {first}", remedy)
    major, full = version
    if major < JAVA:
        return Check("Java", False, f"{full} at {command} is older than {JAVA}", remedy)
    return Check("Java", True, f"{full} at {command}", "")


def java_version(printed: str) -> tuple[int, str] | None:
    r"""Read `java -version`, whatever stands around it.

    >>> java_version('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.15" 2025-04-15')
    (17, '17.0.15')
    >>> java_version('java version "1.8.0_392"')
    (8, '1.8.0_392')
    """
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', printed)
    return (int(match[2]), match[1]) if match else None


def python() -> Check:
    """Compare the Python that runs this."""
    ok = sys.version_info >= PYTHON
    found = f"{dotted(sys.version_info[:3])} at {sys.executable}"
    return Check("Python", ok, found, "" if ok else f"run Dovetail with Python {dotted(PYTHON)} or newer")


def pyspark() -> Check:
    """Read the version beside the `pyspark` that an import would take, a spark-submit zip included."""
    remedy = f"install it with `pip install 'pyspark>={dotted(PYSPARK)}'`"
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return Check("PySpark", False, "not installed", remedy)
    text = b""
    with contextlib.suppress(AttributeError, OSError):
        text = spec.loader.get_data(str(Path(spec.origin).with_name("version.py")))  # type: ignore[union-attr]
    match = re.search(r"""__version__\b.*?["']((\d+)\.(\d+)[^"']*)["']""", text.decode())
    if match is None:
        return Check("PySpark", False, f"no version in {spec.origin}", remedy)
    ok = (int(match[2]), int(match[3])) >= PYSPARK
    return Check("PySpark", ok, match[1], "" if ok else remedy)


def workers() -> Check:
    """Compare the Python that Spark starts for Python functions with this one; minor versions must agree."""
    name = "Python workers"
    wanted = os.environ.get("PYSPARK_PYTHON") or sys.executable
    remedy = f"unset PYSPARK_PYTHON, or set it to {sys.executable}"
    command = shutil.which(wanted)
    if command is None:
        return Check(name, False, f"{wanted} cannot be run", remedy)
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    here = dotted(sys.version_info[:2])
    version = here if command == sys.executable else output(command, "-c", script).strip()
    if version == here:
        return Check(name, True, f"{version} at {command}", "")
    there = f"Python {version}" if re.fullmatch(r"\d+\.\d+", version) else "no working Python"
    return Check(name, False, f"{there} at {command}, but this is Python {here}", remedy)


def memory() -> Check:
    """Compare the memory that is free, inside a container's limit where there is one."""
    free = available_memory()
    if free is None:
        return Check("Memory", True, "this system does not report it", "")
    ok = free >= MEMORY
    remedy = f"free some, or allow this container or machine more; Spark wants {gib(MEMORY)}"
    return Check("Memory", ok, f"{gib(free)} available", "" if ok else remedy)


def available_memory() -> int | None:
    """Return the bytes a new process could take, or None if the system does not report it."""
    try:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    if match := re.search(r"MemAvailable:\s+(\d+) kB", text_of("/proc/meminfo")):
        free = int(match[1]) << 10
    limit, used, parts = (text_of(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current", "stat"))
    if limit.strip().isdigit():  # else "max": no limit
        cached = sum(map(int, re.findall(r"^(?:in)?active_file (\d+)", parts, re.MULTILINE)))
        free = min(free, int(limit) - int(used) + cached)
    return free


def scratch() -> Check:
    """Try to write where Spark spills and shuffles, and compare the space that is left there."""
    name = "Scratch directory"
    remedy = f"set SPARK_LOCAL_DIRS to a writable directory with {gib(SCRATCH)} free"
    try:
        wanted = os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()
        places = [Path(place.strip()) for place in wanted.split(",")]
        for place in places:
            standing = next(path for path in (place, *place.absolute().parents) if path.exists())
            with tempfile.TemporaryFile(dir=standing):  # Spark makes what is missing below
                free = shutil.disk_usage(standing).free
            if free < SCRATCH:
                return Check(name, False, f"{gib(free)} free in {place}", remedy)
    except OSError as error:
        return Check(name, False, f"cannot be written: {error}", remedy)
    return Check(name, True, f"{gib(free)} free in {place}", "")


def output(*command: str) -> str:
    """Return all that a short command prints, or nothing if it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).decode(errors="replace")


def text_of(path: str) -> str:
    """Return a system file's text, or nothing where there is none."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def dotted(version: tuple[int, ...]) -> str:
    """Return a version as people write it."""
    return ".".join(map(str, version))


def gib(size: int) -> str:
    """Return a size in GiB, with one digit after the point."""
    return f"{size / (1 << 30):.1f} GiB"
