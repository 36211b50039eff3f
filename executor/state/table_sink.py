"""A table as a sink: new files next to those it has, or all of its rows replaced by Spark."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StructType

from dovetail.executor.session.batch import run
from dovetail.executor.session.settings import all_settings, name_case
from dovetail.executor.session.tables import Table, find_table, qualified_name, refresh_table, wrong_columns
from dovetail.executor.session.temporary_views import temporary_view
from dovetail.executor.state.file_sink import FileOutput
from dovetail.executor.state.folder import Folder
from dovetail.executor.state.output import Output
from dovetail.executor.state.segments import empty_rows
from dovetail.planner.errors import OptionError, StateError
from dovetail.planner.state.sink import Sink

_WRITTEN = "__dt_written"
_OVERWRITE = "partitionOverwriteMode"


class TableOutput(Output):
    """Files below a table, in its format and with its options; each epoch replaces its own.

    An INSERT of Spark's names its files at random, so that an epoch that runs again could not find its own.
    """

    def __init__(self, session: SparkSession, table: Table, folder: Folder, owner: str):
        self.session, self.table = session, table
        self.files = FileOutput(folder, Sink(table.provider, options=table.options), owner, "never")

    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Write the files, and refresh the table in the session.

        Raises ``StateError`` if the table has changed: rows in the old format would be misread.
        """
        name = self.table.name
        if find_table(self.session, name) != self.table:
            raise StateError(
                f"The table {name} has changed since this query or view began to write to it. "
                "Start the query, or call opt.materialize, again: the table is then checked anew"
            )
        self.files.write(self._as_its_columns(answer), epoch, again=again)
        refresh_table(self.session, name, str(self.table.folder))

    def check(self, none: DataFrame) -> None:
        """Raise ``OptionError`` where Spark does not write rows like these ``none``."""
        self.files.check(self._as_its_columns(none))

    def _as_its_columns(self, answer: DataFrame) -> DataFrame:
        """Rename and cast columns to those of the table: in JSON, names are case-sensitive."""
        numbered = answer.toDF(*(f"c{n}" for n in range(len(answer.columns))))  # no two of which are the same
        columns = zip(numbered.columns, self.table.columns, strict=True)
        return numbered.select(*(F.col(c).cast(target.dataType).alias(target.name) for c, target in columns))


class ReplacedTable(Output):
    """A table whose rows are replaced, in one step where its format can do that; it is made if it is not there."""

    def __init__(self, session: SparkSession, table: str):
        self.session, self.table = session, qualified_name(session, table)  # whatever the catalog of its rows' session

    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Replace all rows of the table, in any partition overwrite mode of the session."""
        if not self.session.catalog.tableExists(self.table):
            self.session.catalog.createTable(self.table, schema=empty_rows(self.session, answer.schema).schema)
        jvm: Any = self.session._jvm
        inside: Any = answer._jdf.sparkSession().cloneSession()
        inside.conf().set(f"spark.sql.sources.{_OVERWRITE}", "static")
        datasets: Any = getattr(jvm, "org.apache.spark.sql.classic.Dataset")
        rows = datasets.ofRows(inside, answer._jdf.queryExecution().analyzed())
        DataFrame(rows, SparkSession(self.session.sparkContext, inside)).write.insertInto(self.table, overwrite=True)
        self.session.catalog.refreshTable(self.table)


def check_table(session: SparkSession, target: object, returned: StructType, *, casts: bool = False) -> None:
    """Raise ``OptionError`` for a table whose columns differ from those of a query in names, types or order.

    New files of a table are read by its schema, so the types must be the same.  ``casts``: Spark writes the table by
    position and casts the values.
    """
    if not isinstance(target, str) or (table := find_table(session, target)) is None:
        return
    case, existing = name_case(all_settings(session)), tuple(table.columns)
    names = [case.folded(f.name for f in columns) for columns in (existing, returned)]
    types = [case.folded(f.dataType.simpleString() for f in columns) for columns in (existing, returned)]
    if names[0] != names[1] or not (casts or types[0] == types[1]):
        raise wrong_columns(target, table.columns, returned)
    if not casts and table.char_column:
        raise OptionError(
            f"The column {table.char_column} of the table {target} is CHAR or VARCHAR, "
            "whose lengths files do not store; create a table in which it is STRING, or name another"
        )
    if casts and table.partitioned and _has_dynamic_overwrite(table):
        raise OptionError(
            f"The table {target} has the option {_OVERWRITE}=dynamic, so that partitions without new rows would keep "
            "their old rows; create a table without this option, or name another"
        )
    if casts:
        _check_insert(session, table, returned)


def _check_insert(session: SparkSession, table: Table, returned: StructType) -> None:
    """Raise ``OptionError`` if Spark cannot plan an INSERT of rows of a schema into a table; nothing is written."""
    with temporary_view(session, _WRITTEN, empty_rows(session, returned)):
        lines = run(session, f"EXPLAIN INSERT OVERWRITE TABLE {table.name} SELECT * FROM {_WRITTEN}").collect()
    _, failed, why = "\n".join(line[0] for line in lines).partition("Error occurred during query planning:")
    if failed:
        why = why.strip().partition("\n")[0]
        raise OptionError(f"Spark does not write these rows into the table {table.name}: {why}")


def _has_dynamic_overwrite(table: Table) -> bool:
    return any(k.lower() == _OVERWRITE.lower() and v.lower() == "dynamic" for k, v in table.options.items())
