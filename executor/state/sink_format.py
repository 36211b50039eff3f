"""Formats of sinks that Spark does not know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from dovetail.planner.errors import OptionError, one_of
from dovetail.planner.state.sink import Sink, Target

_FORMATS = ("console", "csv", "json", "kafka", "memory", "noop", "orc", "parquet", "text")


@contextmanager
def known_format(target: Target) -> Iterator[None]:
    """Start a query into a sink.  Raises ``OptionError`` where Spark finds no source of the sink's format."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        format_ = target.format if isinstance(target, Sink) else "parquet"
        if format_.lower() in _FORMATS or "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        raise OptionError(
            f"Spark knows no format {format_!r} for the sink; {one_of(_FORMATS, format_)}; "
            "any other needs its jar in the session"
        ) from error
