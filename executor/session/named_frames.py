"""DataFrames in the text of a statement: ``SELECT … FROM {events} e``, as ``spark.sql`` takes them.

While a statement is planned, each DataFrame is a temporary view, and again while the statement that runs is analyzed.
``spark.sql(text, name=frame)`` of PySpark would drop the rows of a cached frame: see ``temporary_views``.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dovetail.executor.session.batch import Arguments, classic, run
from dovetail.executor.session.temporary_views import temporary_views

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

    def views(self) -> AbstractContextManager[None]:
        """Create the temporary views, and drop them at the end."""
        return temporary_views(self.frames)

    def run_as_written(self, session: SparkSession, args: Arguments) -> DataFrame:
        """Run the statement as the user wrote it.  Raises what Spark raises."""
        return _run_with_frames(session, self.written, args, self.values)


def run_over_frames(session: SparkSession, text: str, args: Arguments, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Run a statement over DataFrames whose names in it are unique, and leave what Spark has cached of them."""
    text, named = in_braces(text, frames)
    return _run_with_frames(session, text, args, named)


def _run_with_frames(session: SparkSession, text: str, args: Arguments, values: Mapping[str, Any]) -> DataFrame:
    """Run a statement with DataFrames and values in braces, as ``spark.sql(text, **values)``.

    The views have new names for each run.  A classic session analyzes the statement here; Connect sends the views with
    it each time, and its server drops what is cached of the plan of a view: each is a filter of a frame that keeps all
    rows, a plan that nobody caches and that Spark's optimizer removes.
    """
    if not values:
        return run(session, text, args)
    named = name_frames(session, text, values)
    if classic(session):
        with named.views():
            return run(session, named.text, args)
    text, frames = in_braces(named.text, named.frames)
    return run(session, text, args, **{name: frame.filter("true") for name, frame in frames.items()})


def in_braces(text: str, frames: Mapping[str, DataFrame]) -> tuple[str, dict[str, DataFrame]]:
    """Put the names of DataFrames in a statement into braces; returns it with the DataFrames that it names."""
    named = {name: frame for name, frame in frames.items() if name in text}
    if not named:
        return text, named
    text = text.replace("{", "{{").replace("}", "}}")
    for name in named:
        text = re.sub(rf"\b{name}\b", f"{{{name}}}", text)
    return text, named


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
            name = re.sub("_[0-9a-f]{12}$", "", re.sub("[^a-z0-9]+", "_", field_name.lower()))
            name = f"{name}_{uuid4().hex[:12]}"
            name = name if name[0].isalpha() else f"frame{name}"
            self.frames[name] = found
            return name, first

    formatter = Formatter(session)
    formatter.frames = {}
    return formatter
