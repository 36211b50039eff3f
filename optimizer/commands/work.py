"""Runs a job: opens a session with its tables, creates the optimizer, and writes rows."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dovetail.optimizer.api import Optimizer
from dovetail.optimizer.commands.inputs import EngineName, Job, OutputPath, Table
from dovetail.optimizer.doctor import available_memory, java, require_java, require_pyspark
from dovetail.optimizer.failures import located
from dovetail.optimizer.terminal import print_note, show_status
from dovetail.planner.errors import EnvironmentProblem, InputError, reason_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONNECT_PORT = 15002


@contextmanager
def optimizer_for(job: Job, app: str = "dovetail") -> Iterator[Optimizer]:
    """An optimizer over a session that knows the job's tables.

    Raises ``EnvironmentProblem`` without PySpark, without a Java, without a server, or when Spark does not start.
    """
    require_pyspark()
    engine = job.engine or _default_engine(job)
    if engine == "sail":
        pass  # which needs neither
    elif job.remote is None or job.here:
        require_java()
    else:
        require_server(job.remote)
    with ExitStack() as stack:
        with show_status("starting Sail" if engine == "sail" else "starting Spark"):
            from dovetail.executor.session.sail import sail_server
            from dovetail.executor.session.session import local_session

            remote = stack.enter_context(sail_server()) if engine == "sail" else job.remote
            session = stack.enter_context(
                local_session(app, job.master, remote, memory=available_memory(), settings=job.settings)
            )
        if job.tables:
            with show_status("looking at the tables"):
                for table in job.tables:
                    with located(f"--table {table.name}={table.path}"):
                        read_table(session, table).createOrReplaceTempView(table.name)
        opt = Optimizer(session, job.options)
        if job.catalog is not None:
            with show_status("looking at the catalog"):
                job.catalog.declare(opt)
        for name, columns in job.keys:
            with located(f"--key {name}={','.join(columns)}"):
                opt.declare_key(name, columns)
        yield opt


def _default_engine(job: Job) -> EngineName:
    """Sail where it is installed and Spark would find no Java; else Spark."""
    from dovetail.executor.session.sail import is_installed

    if job.remote is not None or job.master != Job.master or not is_installed() or java().ok:
        return "spark"
    print_note("There is no Java for Spark, so Sail runs the query; --engine spark insists on Spark")
    return "sail"


def require_server(remote: str) -> None:
    """Raise ``EnvironmentProblem`` unless somebody listens: Spark's own client would try for minutes."""
    host, port, scheme = "", _CONNECT_PORT, ""
    with suppress(ValueError):  # a port that is no number, brackets without an address in them
        address = urlsplit(remote)
        scheme, host, port = address.scheme, address.hostname or "", address.port or port
    if scheme != "sc" or not host:
        raise InputError(f"--remote {remote}: a server is named as sc://host:port")
    try:
        socket.create_connection((host, port), timeout=10).close()
    except (OSError, UnicodeError) as error:  # the latter for a name that no host can have
        remedy = "start one, or name another with --remote"
        raise EnvironmentProblem(f"no Spark Connect server answers at {host}:{port}", remedy=remedy) from error


def read_table(session: SparkSession, table: Table, **more: bool) -> DataFrame:
    """Read a table: CSV with a header line and types found out, JSON as Spark reads it.

    A path that is there on this machine is taken literally, and any other is a pattern of names.
    """
    from dovetail.executor.state.paths import read_paths

    options = more
    if table.format == "csv":
        options = {"header": True, "inferSchema": True, **more}
    elif table.format == "json":
        options = {"multiLine": not table.lines, **more}
    if "://" not in table.path and Path(table.path).exists():
        path = str(Path(table.path).absolute())
        return read_paths(lambda: session.read.options(**options), [path], table.format)
    return session.read.options(**options).format(table.format).load(table.path)


def write(frame: DataFrame, output: OutputPath, *, ordered: bool) -> int | None:
    """Write all rows; what stood there is replaced at the end, or not at all.

    One file takes a last step in one task: ``ordered`` keeps the order of rows at the price of the step before it.
    Returns the size in bytes, None where this machine does not see the files.  Raises ``InputError`` where the place
    cannot be written after all, and what Spark raises.
    """
    try:
        return _written(frame, output, ordered=ordered)
    except OSError as error:
        raise InputError(f"--out {output.path} cannot be written: {reason_of(error)}") from error


def _written(frame: DataFrame, output: OutputPath, *, ordered: bool) -> int | None:
    if not Path(output.path).absolute().parent.is_dir() or "://" in output.path:
        _save(frame, output.path, output)
        return None
    path = Path(output.path)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.absolute().parent) as made:
        parts = Path(made, "parts")
        if output.directory:
            _save(frame, str(parts), output)
            return _replace(parts, path, Path(made, "old"))
        _save(frame.coalesce(1) if ordered else frame.repartition(1), str(parts), output)
        part = next(parts.glob("part-*"), None)
        if part is None:
            part = parts / "part-0"
            part.touch()
        size = part.stat().st_size
        part.replace(path)
        return size


def _save(frame: DataFrame, path: str, output: OutputPath) -> None:
    writer = frame.write.mode("overwrite" if output.overwrite else "error")
    match output.format:
        case "csv":
            writer.csv(path, header=True)
        case "json":
            writer.json(path, ignoreNullFields=False)
        case _:
            writer.parquet(path)


def _replace(new: Path, path: Path, old: Path) -> int:
    if path.exists():
        path.rename(old)
    new.rename(path)
    shutil.rmtree(old, ignore_errors=True)
    return sum(p.stat().st_size for p in path.glob("part-*"))
