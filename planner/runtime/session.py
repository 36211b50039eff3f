"""A Spark session of our own, for the command line: quiet, sized to this machine, and gone when we are."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from planner.errors import EnvironmentProblem

_MOST_MEMORY = 8 << 30


@contextmanager
def local_session(
    app: str = "dovetail",
    master: str = "local[*]",
    remote: str | None = None,
    *,
    memory: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Start a session and stop it in the end; where this process has one, borrow it and leave it running.

    ``memory`` is what the machine has to spare, in bytes: the driver gets half of it, 8 GiB at most.  ``settings`` win
    over the user's Spark configuration, which wins over what is chosen here.  Raises ``EnvironmentProblem`` when Spark
    does not start.
    """
    PySparkLogger.getLogger(
        "SQLQueryContextLogger"
    ).disabled = True  # else a JSON stack trace for every error in a query
    settings = settings or {}
    running = SparkSession.getActiveSession()
    if running is not None:
        borrowed = running.newSession()
        for name, value in settings.items():
            if running.conf.isModifiable(name):
                borrowed.conf.set(name, value)
        yield borrowed
        return
    with tempfile.TemporaryDirectory(prefix="dovetail-", ignore_cleanup_errors=True) as scratch:
        with _hushed() as log, _uninterrupted() as interrupts:
            session = _start(app, master, remote, memory, settings, Path(scratch), log)
        try:
            if interrupts:
                raise KeyboardInterrupt
            yield session
        finally:
            with _hushed():
                session.stop()


def cores(master: str) -> int | None:
    """The number of tasks that a local master runs at once, or None for a cluster.

    >>> cores("local"), cores("local[3]"), cores("local-cluster[2,1,1024]"), cores("yarn")
    (1, 3, 2, None)
    """
    match = re.fullmatch(r"local(?:-cluster\[(\d+),(\d+),\d+\]|\[([\d*]+)(?:,\s*\d+)?\])?", master.replace(" ", ""))
    if match is None:
        return None
    workers, each, threads = match.groups()
    if workers:
        return int(workers) * int(each)
    return (os.cpu_count() or 1) if threads == "*" else int(threads or 1)


def message(error: BaseException) -> str | None:
    """What Spark says in an error, without plans and stack traces; None for an error that is not Spark's."""
    if isinstance(error, PySparkException):
        said = re.split(r"\n\s*JVM stacktrace:", str(error))[0]
        return re.sub(r"(SQLSTATE: \w+(?:; line \d+ pos \d+)?);\n.*", r"\1", said, flags=re.DOTALL).strip()
    if type(error).__module__.split(".")[0] != "py4j":
        return None
    if (thrown := getattr(error, "java_exception", None)) is not None:
        cause = thrown
        while cause.getCause() is not None:
            cause = cause.getCause()
        return f"{cause.getClass().getSimpleName()}: {cause.getMessage() or thrown.getMessage()}"
    return "Spark's JVM has gone; it may have run out of memory"


def _start(
    app: str,
    master: str,
    remote: str | None,
    memory: int | None,
    settings: Mapping[str, str],
    scratch: Path,
    log: IO[bytes],
) -> SparkSession:
    chosen: dict[str, str] = {}
    if (remote or master).startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        theirs = _set_by_the_user()
        ours = _quiet(scratch) | _sized(remote or master, memory)
        chosen = {name: value for name, value in ours.items() if name not in theirs}
    builder = SparkSession.builder.appName(app)
    builder = builder.remote(remote) if remote else builder.master(master)
    for name, value in (chosen | dict(settings)).items():
        builder = builder.config(name, value)
    try:
        with warnings.catch_warnings():
            # A Connect client sets all of them once more on the server that it has started with them.
            warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
            return builder.getOrCreate()
    except Exception as error:
        log.seek(0)
        said = message(error) or f"{type(error).__name__}: {error}"
        remedy = "`dovetail doctor` looks at this machine; --master, --remote and --conf say where and how Spark runs"
        raise EnvironmentProblem(_last_words(log.read()) or f"Spark did not start: {said}", remedy=remedy) from error


def _quiet(scratch: Path) -> dict[str, str]:
    return {
        "spark.log.level": "ERROR",
        "spark.pyspark.python": os.environ["PYSPARK_PYTHON"],
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _sized(master: str, memory: int | None) -> dict[str, str]:
    sized = {}
    if memory is not None:
        sized["spark.driver.memory"] = f"{min(memory // 2, _MOST_MEMORY) >> 20}m"
    if (tasks := cores(master)) is not None:
        sized["spark.sql.shuffle.partitions"] = str(max(2, tasks))
    return sized


def _set_by_the_user() -> set[str]:
    """Names that Spark's own configuration sets: the environment, ``PYSPARK_SUBMIT_ARGS``, ``spark-defaults.conf``."""
    found = {"spark.driver.memory"} if "SPARK_DRIVER_MEMORY" in os.environ else set()
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    found |= {"spark.driver.memory" for word in words if word.startswith("--driver-memory")}
    found |= {word.partition("=")[0].strip() for word in words if word.startswith("spark.")}
    home = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", "."), "conf")
    defaults = Path(home, "spark-defaults.conf")
    if defaults.is_file():
        lines = defaults.read_text(errors="replace").splitlines()
        found |= {re.split(r"[\s=:]", line.strip())[0] for line in lines if line.strip().startswith("spark.")}
    return found


@contextmanager
def _uninterrupted() -> Iterator[list[int]]:
    """Collect interrupts instead of raising them: a JVM whose start is interrupted would stay for good.

    Afterwards an interrupt is a ``KeyboardInterrupt`` and no more; PySpark's own handler of it talks to the JVM on the
    very connection that it interrupts.
    """
    interrupts: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _last_words(log: bytes) -> str:
    """The line in which the launcher or the JVM says why it ended, or nothing."""
    lines = [line.strip() for line in log.decode(errors="replace").splitlines()]
    reasons = [line for line in lines if re.match(r"(Error|Exception in thread|Caused by|Unrecognized)\b", line)]
    if not reasons:
        return ""
    plain = re.sub(r"^(Exception in thread \S+|Caused by:|Error:) (?:[\w.$]+(?:Error|Exception): )?", "", reasons[-1])
    return f"Spark did not start: {plain.rstrip('.')}"


@contextmanager
def _hushed() -> Iterator[IO[bytes]]:
    """Send what is printed on stderr to a file; a JVM that starts meanwhile prints there as long as it lives."""
    with tempfile.TemporaryFile() as log:
        stderr = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield log
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
