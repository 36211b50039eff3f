"""DataFrames in the text of a statement: ``SELECT … FROM {events} e``, as ``spark.sql`` takes them.

While a statement is planned, each DataFrame is a temporary view.  The statement that runs names the DataFrames again:
Spark's own formatter makes and drops what it needs, on a classic session and on Spark Connect.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.errors import PySparkException

from planner.runtime.batch import Arguments, classic, in_braces, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class NamedFrames:
    """A statement that names DataFrames and values in braces.

    ``written`` and ``values``: what the user passed.  ``text``: the statement over temporary views, with the values as
    Spark writes them.  ``frames``: the DataFrames by the name of their view.
    """

    written: str
    values: Mapping[str, Any]
    text: str
    frames: Mapping[str, DataFrame]

    @classmethod
    def of_views(cls, text: str, frames: Mapping[str, DataFrame]) -> NamedFrames:
        """The same, of a statement over views, from the DataFrame of each view."""
        written, named = in_braces(text, frames)
        return cls(written, named, text, frames)

    @contextmanager
    def views(self) -> Iterator[None]:
        """Create the temporary views, and drop them at the end."""
        created: list[tuple[DataFrame, str]] = []
        try:
            for name, frame in self.frames.items():
                frame.createOrReplaceTempView(name)
                created.append((frame, name))
            yield
        finally:
            for frame, name in created:
                _drop_view(frame.sparkSession, name)

    def run_as_written(self, session: SparkSession, args: Arguments) -> DataFrame:
        """Run the statement as the user wrote it.  Raises what Spark raises."""
        return run(session, self.written, args, **self.values)


def _drop_view(session: SparkSession, name: str) -> None:
    """Drop a temporary view.  ``catalog.dropTempView`` would also drop the cached rows of its DataFrame."""
    try:
        run(session, f"DROP VIEW {name}")
    except PySparkException:
        session.catalog.dropTempView(name)


def name_frames(session: SparkSession, written: str, values: Mapping[str, Any]) -> NamedFrames:
    """Replace the DataFrames and values in braces.  Raises what Spark's formatter raises."""
    formatter = _formatter(session)
    text = formatter.format(written, **values)
    return NamedFrames(written, values, text, formatter.frames)


def _formatter(session: SparkSession) -> Any:
    """Create a formatter that writes values as Spark's does, and a DataFrame as the name of a view."""
    from pyspark.sql import DataFrame

    if classic(session):
        from pyspark.sql.sql_formatter import SQLStringFormatter
    else:
        from pyspark.sql.connect.sql_formatter import SQLStringFormatter  # type: ignore[assignment]

    class Formatter(SQLStringFormatter):
        frames: dict[str, DataFrame]

        def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            found, first = string.Formatter.get_field(self, field_name, args, kwargs)
            if not isinstance(found, DataFrame):
                return super().get_field(field_name, args, kwargs)
            for name, frame in self.frames.items():
                if frame is found:
                    return name, first
            name = f"{re.sub('[^a-z0-9]+', '_', field_name.lower())}_{uuid4().hex[:12]}"
            name = name if name[0].isalpha() else f"frame{name}"
            self.frames[name] = found
            return name, first

    formatter = Formatter(session)
    formatter.frames = {}
    return formatter
