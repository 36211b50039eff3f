"""The command line's own Spark session: quiet, sized to this machine, and stopped at the end."""

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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pyspark.sql import SparkSession

from dovetail.executor.session.failures import spark_failure
from dovetail.executor.session.pyspark_versions import pyspark_logger
from dovetail.planner.errors import EnvironmentProblem, InputError

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
    """Start a session and stop it at the end; if the process has an active session, borrow it and leave it running.

    ``memory`` is what the machine has to spare, in bytes: the driver gets half of it, 8 GiB at most.  ``settings`` win
    over the user's Spark configuration, which wins over what is chosen here.  Raises ``EnvironmentProblem`` when Spark
    does not start.
    """
    pyspark_logger("SQLQueryContextLogger").disabled = True  # else a JSON stack trace for every error in a query
    settings = settings or {}
    running = SparkSession.getActiveSession()
    if running is not None:
        borrowed = running.newSession()
        for name, value in settings.items():
            _set(borrowed, name, value)
        yield borrowed
        return
    with tempfile.TemporaryDirectory(prefix="dovetail-", ignore_cleanup_errors=True) as scratch:
        with _redirect_stderr() as log, _defer_interrupts() as interrupts:
            builder = SparkSession.builder.appName(app)
            builder = builder.remote(remote) if remote else builder.master(master)
            chosen = _chosen_settings(remote or master, memory, Path(scratch))
            session = _start(builder, chosen | dict(settings), log)
        try:
            if interrupts:
                raise KeyboardInterrupt
            yield session
        finally:
            with _redirect_stderr(), suppress(Exception):  # the JVM has ended, and an error is already raised
                session.stop()


def _set(session: SparkSession, name: str, value: str) -> None:
    """Set a setting if it can be modified at runtime.  Raises ``InputError`` for a value that Spark rejects."""
    try:
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    except Exception as error:
        failure = spark_failure(error)
        if failure is None or failure.is_unreachable:
            raise
        raise InputError(f"The setting {name}={value} (--conf) cannot be used: {failure.message}") from error


def cores(master: str) -> int | None:
    """Return the number of concurrent tasks of a local master, or None for a cluster.

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


def _chosen_settings(target: str, memory: int | None, scratch: Path) -> dict[str, str]:
    """The settings of a session on this machine that the user's configuration leaves open; none elsewhere."""
    if not target.startswith("local"):
        return {}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    theirs = _user_settings()
    ours = _quiet_settings(scratch) | _size_settings(target, memory)
    return {name: value for name, value in ours.items() if name not in theirs}


def _start(builder: SparkSession.Builder, settings: Mapping[str, str], log: IO[bytes]) -> SparkSession:
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with warnings.catch_warnings():
            # A Connect client sets all of them again on the server that it has started.
            warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
            return builder.getOrCreate()
    except Exception as error:
        log.seek(0)
        failure = spark_failure(error)
        reason = failure.message if failure else f"{type(error).__name__}: {error}"
        remedy = "`dovetail doctor` checks this machine; --master, --remote and --conf set where and how Spark runs"
        raise EnvironmentProblem(
            _launcher_error(log.read()) or f"Spark did not start: {reason}", remedy=remedy
        ) from error


def _quiet_settings(scratch: Path) -> dict[str, str]:
    return {
        "spark.log.level": "ERROR",
        "spark.pyspark.python": os.environ["PYSPARK_PYTHON"],
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _size_settings(master: str, memory: int | None) -> dict[str, str]:
    sized = {}
    if memory is not None:
        sized["spark.driver.memory"] = f"{min(memory // 2, _MOST_MEMORY) >> 20}m"
    if (tasks := cores(master)) is not None:
        sized["spark.sql.shuffle.partitions"] = str(max(2, tasks))
    return sized


def _user_settings() -> set[str]:
    """Return the settings of Spark's configuration: environment, ``PYSPARK_SUBMIT_ARGS``, ``spark-defaults.conf``."""
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
def _defer_interrupts() -> Iterator[list[int]]:
    """Collect interrupts instead of raising them: a JVM interrupted during its start would never exit.

    Afterwards an interrupt only raises ``KeyboardInterrupt``; PySpark's own handler would use the very connection to
    the JVM that it interrupts.
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


def _launcher_error(log: bytes) -> str:
    """Extract the launcher's or the JVM's error line from its log, or an empty string."""
    lines = [line.strip() for line in log.decode(errors="replace").splitlines()]
    reason = [s for s in lines if re.match(r"(Error|Exception in thread|Caused by|Unrecognized|Invalid)\b", s)]
    reasons = [s for s in reason if not re.search(r"A fatal exception|Could not create the Java", s)] or reason
    if not reasons:
        return ""
    plain = re.sub(r"^(Exception in thread \S+|Caused by:|Error:) (?:[\w.$]+(?:Error|Exception): )?", "", reasons[-1])
    return f"Spark did not start: {plain.rstrip('.')}"


@contextmanager
def _redirect_stderr() -> Iterator[IO[bytes]]:
    """Redirect stderr to a file; a JVM that starts meanwhile keeps printing there."""
    with tempfile.TemporaryFile() as log:
        stderr = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield log
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
