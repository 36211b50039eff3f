"""A sink of files in a folder: each file is named after its epoch, so that an epoch that runs again replaces its own.

While epoch 12 is being written, its files are in a folder that readers skip; after that, next to those of others.

    FOLDER/_dovetail-OWNER-000000000012/part-00000-….parquet
           OWNER-000000000012-part-00000-….parquet
"""

from __future__ import annotations

import re
from typing import Literal
from uuid import uuid4

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, Observation
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from dovetail.executor.state.files import describe_error
from dovetail.executor.state.folder import Folder
from dovetail.executor.state.output import Output
from dovetail.planner.errors import OptionError, StateError
from dovetail.planner.expr import quote
from dovetail.planner.state.sink import Sink

Empties = Literal["always", "first", "never"]


class FileOutput(Output):
    """Files in one folder, named after their epoch; they are written out of sight, and then get their names.

    Any reader of the folder sees each row once.  While an epoch gets its names, and after a crash in that moment until
    the next start, it sees part of that epoch.
    """

    def __init__(self, folder: Folder, sink: Sink, owner: str, empties: Empties = "always", what: str = "sink"):
        """``empties``: when an epoch without rows leaves the file that Spark writes for it.

        ``first``: only where the folder has no file yet, so that it can be read.  ``what``: what errors call it.
        """
        self.folder, self.sink, self.owner, self.empties, self.what = folder, sink, owner, empties, what

    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Write out of sight, remove what the epoch wrote before, and give the files their names."""
        hidden, name = f"_dovetail-{self.owner}-{epoch:012}", f"{self.owner}-{epoch:012}-"
        earlier = self._written_before(name) if again else []
        if again:
            self.folder.delete(hidden)
        has_rows = self._save(answer, hidden)
        for path in earlier:
            self.folder.delete(path)
        if has_rows or (self.empties == "first" and self._is_empty()):
            for found in self.folder.walk(hidden):
                folder, _, file = f"/{found.name}".rpartition("/")
                if not is_hidden(found.name):
                    self.folder.rename(f"{hidden}/{found.name}", f"{folder}/{name}{file}".lstrip("/"))
        if again:
            for left in self.folder.inside():
                if left.folder and left.name.startswith(f"_dovetail-{self.owner}-"):
                    self.folder.delete(left.name)
        else:
            self.folder.delete(hidden)

    def check(self, none: DataFrame) -> None:
        """Raise ``OptionError`` where Spark does not write rows like these ``none``, by its format and options."""
        was_there, hidden = bool(self.folder.inside()), f"_dovetail-check-{uuid4().hex[:8]}"
        inner = none.drop(*(F.col(quote(name)) for name in self.sink.partition_by))
        try:
            self._writer(none).save(self.folder.below(hidden))
            if self.sink.partition_by:  # below partitions no file is begun without a row
                self._writer(inner, ()).save(self.folder.below(hidden))
        except (PySparkException, Py4JJavaError) as error:
            raise OptionError(
                f"Spark does not write these rows to {self.folder.public}: {describe_error(error, str(self.folder))}; "
                "cast or leave out what its format cannot hold, or give the sink another format or other options"
            ) from error
        finally:
            self.folder.delete(hidden)
            if not was_there:  # another start may check at the same moment
                self.folder.delete_empty()

    def _written_before(self, name: str) -> list[str]:
        """The files that an earlier attempt of an epoch wrote.

        Raises ``StateError`` if there are files of a later epoch: the state was restored from an older copy, and the
        rows of these files would be written a second time.
        """
        found = [(path.name, path.name.rsplit("/", 1)[-1]) for path in self.folder.walk()]
        number = re.compile(rf"{re.escape(self.owner)}-(\d{{12}})-")
        later = next((path for path, file in found if (m := number.match(file)) and m[0] > name), None)
        if later:
            raise StateError(
                f"The sink {self.folder.public} has {later}, which was written after {name.rstrip('-')}, the next that "
                "its state writes: the state was restored from an older copy, and would write these rows once more. "
                "Restore the sink from a copy of the same moment, or begin again with both empty"
            )
        return [path for path, file in found if file.startswith(name)]

    def _writer(self, rows: DataFrame, by: tuple[str, ...] | None = None) -> DataFrameWriter:
        writer = rows.write.format(self.sink.format).options(**self.sink.options).mode("overwrite")
        writer = writer.option("partitionOverwriteMode", "static")
        by = self.sink.partition_by if by is None else by
        return writer.partitionBy(*by) if by else writer

    def _save(self, answer: DataFrame, hidden: str) -> bool:
        """Write the rows to a folder of their own; whether its files are to be kept in any case."""
        # Of no rows Spark writes one empty file, or none at all below partitions.
        counted = None if self.empties == "always" or self.sink.partition_by else Observation()
        if counted:
            answer = answer.observe(counted, F.count(F.lit(1)).alias("rows"))
        try:
            self._writer(answer).save(self.folder.below(hidden))
        except Py4JJavaError as error:
            why = describe_error(error, str(self.folder))
            raise StateError(f"The {self.what} {self.folder.public} cannot be written: {why}") from error
        return counted is None or bool(counted.get["rows"])

    def _is_empty(self) -> bool:
        """Whether readers find no file in the folder."""
        return all(is_hidden(found.name) for found in self.folder.inside())


def is_hidden(path: str) -> bool:
    """Whether readers of a folder skip a path in it, as Spark and Hadoop do."""
    return any(name.startswith(".") or (name.startswith("_") and "=" not in name) for name in path.split("/"))
