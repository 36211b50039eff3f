r"""Reads files and folders by name: Spark's readers take ``? * [ ] { } \`` in a path for a pattern of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

from pyspark.sql import DataFrame, DataFrameReader

PATTERNS = frozenset("?*[]{}\\")
GLOB_PATHS = "__globPaths__"  # the option by which Spark's own file streams read the files that they have listed


def read_paths(reader: Callable[[], DataFrameReader], paths: Iterable[str], format_: str = "parquet") -> DataFrame:
    """The rows of files and folders, each path of which is taken literally; there is at least one.

    ``reader`` makes a reader with its schema and options.  A pattern with escaped characters is not enough: Hadoop's
    globbing fails on names that also have a colon.  Without globbing, Spark reads several such paths once for each of
    them, and so they are read one by one.
    """
    found = list(paths)
    if not any(PATTERNS & set(path) for path in found):
        return reader().format(format_).load(found)
    frames = [reader().option(GLOB_PATHS, "false").format(format_).load(path) for path in found]
    return reduce(DataFrame.unionAll, frames)
