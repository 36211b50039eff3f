"""The sinks of a join of streams: an epoch that runs again replaces its rows."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dovetail.executor.catalog.views import check_view_name
from dovetail.executor.session.batch import classic
from dovetail.executor.session.settings import all_settings, name_case
from dovetail.executor.session.tables import find_table, qualified_name
from dovetail.executor.state.file_sink import FileOutput
from dovetail.executor.state.files import open_folder
from dovetail.executor.state.folder import Folder
from dovetail.executor.state.memory_sink import MemoryOutput
from dovetail.executor.state.output import Output
from dovetail.executor.state.segments import empty_rows
from dovetail.executor.state.server_folder import FolderRefused
from dovetail.executor.state.sink_places import has_log
from dovetail.executor.state.table_sink import ReplacedTable, TableOutput, check_table
from dovetail.planner.errors import OptionError
from dovetail.planner.expr import quote
from dovetail.planner.state.sink import Sink, Target, check, check_partitions

__all__ = [
    "FileOutput",
    "FunctionOutput",
    "NoOutput",
    "Output",
    "check_schema",
    "output",
    "output_of_view",
    "sink_identity",
    "sink_place",
]

FILES = frozenset({"parquet", "orc", "json", "csv", "text"})


class FunctionOutput(Output):
    """A function of the user's, which must be idempotent: it may be called twice for an epoch."""

    def __init__(self, function: Callable[[DataFrame, int], None]):
        self.function = function

    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Call the function."""
        self.function(answer, epoch)


class NoOutput(Output):
    """A sink that computes every row and stores none."""

    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Compute the rows."""
        answer.write.format("noop").mode("overwrite").save()


class ConsoleOutput(Output):
    """The terminal as a sink."""

    def __init__(self, sink: Sink):
        self.rows = int(sink.options.get("numRows", 20))
        self.truncate = str(sink.options.get("truncate", "true")).lower() != "false"

    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Print the first rows."""
        print(f"{'-' * 43}\nBatch: {epoch}\n{'-' * 43}")  # noqa: T201 - as Spark's own console sink
        answer.show(self.rows, truncate=self.truncate)


def output_of_view(session: SparkSession, target: Target, mode: str, owner: str) -> Output:
    """Return the sink of a materialized view: for its changes (``update``), or for all rows (``complete``).

    Raises ``OptionError`` for a sink that cannot take them.
    """
    check(target, mode)
    if mode not in ("update", "complete"):
        raise OptionError(f"mode is {mode!r}; a materialized view has 'update' and 'complete'")
    if isinstance(target, str) and mode == "complete":
        return ReplacedTable(session, target)
    if isinstance(target, str) and find_table(session, target) is None:
        raise OptionError(
            f"The table {target} does not exist; create it with the columns of the view and a last column _change_type "
            "STRING, or give files or a function"
        )
    found = output(session, target, None, owner)
    if isinstance(found, str):
        raise OptionError(f"The view cannot write to this sink: {found}; give files, a table of files, or a function")
    if isinstance(found, FileOutput) and mode == "complete":
        raise OptionError(
            "mode='complete' replaces all rows, and files cannot be replaced in one step; name a table, give a "
            "function, or write mode='update'"
        )
    return found


def output(session: SparkSession, target: Target, name: str | None, owner: str) -> Output | str:
    """Return the sink for a target, or why only Spark's own can write to it; ``owner``: the prefix of the files."""
    if isinstance(target, str):
        return _table(session, target, owner)
    if not isinstance(target, Sink):
        return FunctionOutput(target)
    match target.format.lower():
        case "noop":
            return NoOutput()
        case "console":
            return ConsoleOutput(target)
        case "memory" if name and classic(session):
            check_view_name(session, name)
            return MemoryOutput(session, name)
        case format_ if format_ in FILES and target.path is not None:
            try:
                folder = open_folder(session, str(target.path))
            except FolderRefused as no:
                return str(no)
            return _written_by_spark(folder) or FileOutput(folder, target, owner, "first")
    return f"a sink of the format {target.format} is written by Spark alone"


def check_schema(session: SparkSession, target: Target, returned: StructType, *, casts: bool = False) -> None:
    """Raise ``OptionError`` for a sink that cannot take rows of a schema, before any row is read.

    ``casts``: Spark writes the table and casts the values.
    """
    check_partitions(target, returned.names, name_case(all_settings(session)))
    if classic(session):
        check_table(session, target, returned, casts=casts)
    found = None if casts else output(session, target, None, "")
    if isinstance(found, FileOutput | TableOutput):
        found.check(empty_rows(session, returned))


def sink_identity(session: SparkSession, target: Target) -> str:
    """Return one name for a sink, however it is spelled."""
    return " ".join(sink_place(session, target).values())


def sink_place(session: SparkSession, target: Target) -> dict[str, str]:
    """Return the parts that identify a sink, however it is spelled: full path, or catalog, database and table."""
    if isinstance(target, str):
        return {"table": name_case(all_settings(session)).fold(qualified_name(session, target))}
    if not isinstance(target, Sink):
        return {"function": "a function"}
    found = {"format": target.format.lower()}
    if target.path is not None:
        found["path"] = str(open_folder(session, str(target.path)))
    if target.partition_by:
        found["partition_by"] = f"by {', '.join(map(quote, target.partition_by))}"
    return found


def _written_by_spark(folder: Folder) -> str:
    if has_log(folder):
        return f"{folder.public} was written by Spark's own sink, whose log hides all other files"
    return ""


def _table(session: SparkSession, name: str, owner: str) -> Output | str:
    """Return the sink for an existing table of files without partitions and buckets, or why there is none."""
    if not classic(session):
        return f"{name} is a table, which is written through the JVM of the driver, and Spark Connect exposes none"
    table = find_table(session, name)
    if table is None:
        return f"the table {name} does not exist, and only Spark's own sink creates tables"
    if table.provider not in FILES or table.folder is None:
        return f"{name} is not a table of plain files"
    if table.partitioned or table.bucketed:
        kind = "partitions" if table.partitioned else "buckets"
        return f"the table {name} has {kind}, and state modules write tables without them"
    folder = open_folder(session, table.folder)
    return _written_by_spark(folder) or TableOutput(session, table, folder, owner)
