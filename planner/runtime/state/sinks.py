"""Where the rows of a join of streams go, epoch by epoch; an epoch that is run again replaces what it wrote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from planner.errors import OptionError
from planner.runtime.state.files import HadoopFolder
from planner.state.folder import Folder
from planner.state.sink import Sink, Target, check

FILES = frozenset({"parquet", "orc", "json", "csv", "text"})


class Output(ABC):
    """A sink of epochs."""

    @abstractmethod
    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Take the rows of an epoch.  ``again``: an epoch of this number may have been written before."""


class FileOutput(Output):
    """Files in one folder, named after their epoch; they are written out of sight, and then get their names.

    Any reader of the folder sees each row once.  While an epoch gets its names, and after a crash in that moment until
    the next start, it sees part of that epoch.
    """

    def __init__(self, folder: Folder, sink: Sink, owner: str):
        self.folder, self.sink, self.owner = folder, sink, owner

    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Write out of sight, remove what the epoch wrote before, and give the files their names."""
        hidden, name = f"_dovetail-{self.owner}-{epoch:012}", f"{self.owner}-{epoch:012}-"
        writer = answer.write.format(self.sink.format).options(**self.sink.options).mode("overwrite")
        if self.sink.partition_by:
            writer = writer.partitionBy(*self.sink.partition_by)
        writer.save(self.folder.below(hidden))
        if again:
            for found in self.folder.walk():
                if found.name.rsplit("/", 1)[-1].startswith(name):
                    self.folder.delete(found.name)
        for found in self.folder.walk(hidden):
            folder, _, file = f"/{found.name}".rpartition("/")
            if not file.startswith(("_", ".")):
                self.folder.rename(f"{hidden}/{found.name}", f"{folder}/{name}{file}".lstrip("/"))
        if again:
            for left in self.folder.inside():
                if left.folder and left.name.startswith(f"_dovetail-{self.owner}-"):
                    self.folder.delete(left.name)
        else:
            self.folder.delete(hidden)


class FunctionOutput(Output):
    """A function of the user's: whether it can be called twice for an epoch is the user's to see to."""

    def __init__(self, function: Callable[[DataFrame, int], None]):
        self.function = function

    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Call it."""
        self.function(answer, epoch)


class NoOutput(Output):
    """Nowhere: every row is computed."""

    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Compute the rows."""
        answer.write.format("noop").mode("overwrite").save()


class ConsoleOutput(Output):
    """The terminal."""

    def __init__(self, sink: Sink):
        self.rows = int(sink.options.get("numRows", 20))
        self.truncate = str(sink.options.get("truncate", "true")).lower() != "false"

    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Print the first rows."""
        print(f"{'-' * 43}\nBatch: {epoch}\n{'-' * 43}")  # noqa: T201 - as Spark's own console sink
        answer.show(self.rows, truncate=self.truncate)


class MemoryOutput(Output):
    """A temporary view with all rows so far, which are kept in the driver: for tests and trying out."""

    def __init__(self, session: SparkSession, name: str):
        self.session, self.name = session, name
        self.epochs: dict[int, list[Any]] = {}

    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Keep the rows, and make the view anew."""
        self.epochs[epoch] = answer.collect()
        rows = [row for found in self.epochs.values() for row in found]
        self.session.createDataFrame(rows, answer.schema).createOrReplaceTempView(self.name)


class ReplacedTable(Output):
    """A table whose rows are replaced, in one step where its format can do that; it is made if it is not there."""

    def __init__(self, table: str):
        self.table = table

    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Replace its rows."""
        if answer.sparkSession.catalog.tableExists(self.table):
            answer.write.insertInto(self.table, overwrite=True)
        else:
            answer.write.saveAsTable(self.table)


def check_table(session: SparkSession, target: Target, returned: StructType, *, casts: bool = False) -> None:
    """Raise ``OptionError`` for a table whose columns are not those that a query returns, in their order.

    Files that are written beside those of the table are read as it says, so their types must be the same; ``casts``:
    Spark writes it, by position, and sees to the types.
    """
    if not isinstance(target, str) or (said := _described(session, target)) is None:
        return
    sensitive = session.conf.get("spark.sql.caseSensitive") == "true"
    end = next((n for n, (name, *_) in enumerate(said) if not name or name.startswith("#")), len(said))
    there = [(name, type_) for name, type_, _ in said[:end]]
    wanted = [(f.name, f.dataType.simpleString()) for f in returned]
    same = [[name if sensitive else name.lower() for name, _ in columns] for columns in (there, wanted)]
    if same[0] != same[1] or not (casts or [t for _, t in there] == [t for _, t in wanted]):
        raise OptionError(
            f"the table {target} has the columns {_listed(there)}, and {_listed(wanted)} are to be written; "
            "make a table that has these, or name another"
        )


def _listed(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns)


def _described(session: SparkSession, table: str) -> list[tuple[str, str, str]] | None:
    """What Spark tells of a table, without looking at its files, whose list it would remember; None where it is not."""
    try:
        rows = session.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    except PySparkException:
        return None
    return [(str(name), str(type_), str(comment)) for name, type_, comment in rows]


def output_of_view(session: SparkSession, target: Target, mode: str, owner: str) -> Output:
    """The sink for a kept view: of its changes (``update``), or for all of its rows in the place of those before.

    Raises ``OptionError`` where there is none.
    """
    check(target, mode)
    if mode not in ("update", "complete"):
        raise OptionError(f"mode is {mode!r}; a view that is kept fresh has 'update' and 'complete'")
    if isinstance(target, str) and mode == "complete":
        return ReplacedTable(target)
    if isinstance(target, str) and _described(session, target) is None:
        raise OptionError(
            f"the table {target} is not there yet; make it, with the columns of the view and _change_type STRING "
            "behind them, or give files or a function"
        )
    found = output(session, target, None, owner)
    if isinstance(found, str):
        raise OptionError(f"the view cannot go there: {found}; give it files, a table of files, or a function")
    if isinstance(found, FileOutput) and mode == "complete":
        raise OptionError("files cannot be replaced in one step; name a table, give a function, or write mode='update'")
    return found


def output(session: SparkSession, target: Target, name: str | None, owner: str) -> Output | str:
    """The sink for a target; or why it is left to Spark's own.  ``owner`` names the files of this query."""
    if isinstance(target, str):
        return _table(session, target, owner)
    if not isinstance(target, Sink):
        return FunctionOutput(target)
    match target.format.lower():
        case "noop":
            return NoOutput()
        case "console":
            return ConsoleOutput(target)
        case "memory" if name:
            return MemoryOutput(session, name)
        case format_ if format_ in FILES and target.path is not None:
            return _files(session, str(target.path), target, owner)
    return f"a sink of the format {target.format} is written by Spark alone"


def _files(session: SparkSession, path: str, sink: Sink, owner: str) -> Output | str:
    folder = HadoopFolder(session, path)
    if any(found.name == "_spark_metadata" for found in folder.inside()):
        return f"{folder} was written by Spark's own sink, whose log hides all other files"
    return FileOutput(folder, sink, owner)


def _table(session: SparkSession, table: str, owner: str) -> Output | str:
    """A table of files, not partitioned, that is there already."""
    said = _described(session, table)
    if said is None:
        return f"{table} is not there yet, and only a query that Spark runs whole makes one"
    told = {name: text for name, text, _ in said}
    location, format_ = told.get("Location"), told.get("Provider", "").lower()
    if format_ not in FILES or not location or "# Partition Information" in told:
        return f"{table} is no table of plain files"
    return _files(session, location, Sink(format_), owner)
