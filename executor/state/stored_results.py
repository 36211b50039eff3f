"""Stores the result of a view as its sink has it; the next refresh writes the changes since then to the sink.

    STATE/result-000000000004/kept-000000000000-part-…   the result after refresh 4
                              _complete                  its files, with their sizes; there once all of them are

A second computation may return another result: ORDER BY … LIMIT may choose other ties, and sums of doubles depend on
their order.  A refresh that was interrupted after it stored its result writes the same rows again, with its number.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from dovetail.executor.state.file_sink import FileOutput
from dovetail.executor.state.files import HadoopFolder
from dovetail.executor.state.parts import COMPLETE, OWNER, RESULT, Parts, check_parts, stored_files
from dovetail.executor.state.paths import read_paths
from dovetail.executor.state.segments import exact_times
from dovetail.executor.state.streams import unstorable_column
from dovetail.planner.errors import StateError
from dovetail.planner.state.fingerprint import fingerprint
from dovetail.planner.state.refusals import damaged
from dovetail.planner.state.sink import Sink

_FOLDER = re.compile(rf"{RESULT}(\d{{12}})")


@dataclass(frozen=True)
class StoredResults:
    """The results of refreshes, by their numbers, in the folder of a view with a ``schema``."""

    session: SparkSession
    folder: HadoopFolder
    schema: StructType
    remedy: str

    @property
    def possible(self) -> bool:
        """Whether files can hold such rows."""
        return len(self.schema) > 0 and unstorable_column(self._stored) is None

    def has(self, refresh: int) -> bool:
        """Whether the whole result after a refresh is there."""
        return self.folder.read(f"{folder_of_result(refresh)}/{COMPLETE}") is not None

    def check(self) -> None:
        """Raise ``StateError`` where the sink has rows with other columns, which no change could take away."""
        last = next((n for n in self._numbers() if self.has(n)), None)
        if last is not None and self._description(folder_of_result(last))["columns"] != self._columns:
            raise StateError(
                f"The sink of {self.folder} has rows with other columns than {self.schema.simpleString()}, which this "
                "query returns. Let it return those that it returned, or give the view another folder and another sink"
            )

    def write(self, result: DataFrame, refresh: int) -> None:
        """Store the result after a refresh, in the place of a part of it."""
        name = folder_of_result(refresh)
        with exact_times(result.sparkSession):
            output = FileOutput(self.folder.sub(name), Sink("parquet"), OWNER, what="stored result")
            output.write(result.toDF(*self._stored.names), 0, again=True)
        text = json.dumps({"columns": self._columns, "files": stored_files(self.folder, (name,))}, ensure_ascii=False)
        self.folder.create(f"{name}/{COMPLETE}", text)

    def read(self, folder: str) -> DataFrame:
        """The result in a folder.  Raises ``StateError`` where a file of it is missing or damaged."""
        check_parts(self.folder, Parts(files=self._description(folder)["files"]), self.remedy)
        found = read_paths(lambda: self.session.read.schema(self._stored), [self.folder.below(folder)])
        return found.toDF(*self.schema.names)

    def remove_all_but(self, folders: tuple[str, ...]) -> None:
        """Remove the results that are not needed any more."""
        for name in map(folder_of_result, self._numbers()):
            if name not in folders:
                self.folder.delete(name)

    def _numbers(self) -> list[int]:
        """The numbers of the results that are there, whole or not, the newest first."""
        return sorted((int(m[1]) for f in self.folder.inside() if (m := _FOLDER.fullmatch(f.name))), reverse=True)

    def _description(self, folder: str) -> dict[str, Any]:
        """The columns and files of a result.  Raises ``StateError`` where it is missing or cannot be read."""
        path = f"{folder}/{COMPLETE}"
        try:
            found = json.loads(self.folder.read(path) or "")
            files = tuple((str(path), int(size)) for path, size in found["files"])
            return {"columns": str(found["columns"]), "files": files}
        except (ValueError, TypeError, KeyError) as error:
            raise damaged(f"{self.folder.below(path)} cannot be read: {error}", self.remedy) from error

    @property
    def _columns(self) -> str:
        return fingerprint("", self.schema.simpleString())

    @property
    def _stored(self) -> StructType:
        """The columns in files: no two have one name, and any may be NULL."""
        return StructType([StructField(f"c{n}", field.dataType) for n, field in enumerate(self.schema)])


def folder_of_result(refresh: int) -> str:
    """The folder of the result after a refresh; the names of folders are in the order of refreshes."""
    return f"{RESULT}{refresh:012}"
