"""Do a job: a session with its tables, an optimizer over it, and rows to where they shall go."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer.api import Optimizer
from optimizer.commands.inputs import Job, Output, Table
from optimizer.commands.say import status
from optimizer.doctor import available_memory, require_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def optimizer_for(job: Job, app: str = "dovetail") -> Iterator[Optimizer]:
    """An optimizer over a session that knows the job's tables.

    Raises ``EnvironmentProblem`` without a Java, or when Spark does not start.
    """
    if job.remote is None or job.here:
        require_java()
    with ExitStack() as stack:
        with status("starting Spark"):
            from planner.runtime.session import local_session

            session = stack.enter_context(
                local_session(app, job.master, job.remote, memory=available_memory(), settings=job.settings)
            )
        if job.tables:
            with status("looking at the tables"):
                for table in job.tables:
                    read_table(session, table).createOrReplaceTempView(table.name)
        yield Optimizer(session, job.options)


def read_table(session: SparkSession, table: Table) -> DataFrame:
    """Read a table: CSV with a header line and types found out, JSON as Spark reads it."""
    reader = session.read
    match table.format:
        case "csv":
            return reader.csv(table.path, header=True, inferSchema=True)
        case "json":
            return reader.json(table.path, multiLine=not table.lines)
    return reader.parquet(table.path)


def write(frame: DataFrame, output: Output, *, ordered: bool) -> int | None:
    """Write all rows; what stood there is replaced at the end, or not at all.

    One file takes a last step in one task: ``ordered`` keeps the order of rows at the price of the step before it.
    Returns the size in bytes, None where this machine does not see the files.
    """
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


def _save(frame: DataFrame, path: str, output: Output) -> None:
    writer = frame.write.mode("overwrite" if output.overwrite else "errorifexists")
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
