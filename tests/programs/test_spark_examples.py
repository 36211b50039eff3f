"""The examples of PySpark's reference run unchanged while SQL and DataFrames of their session are planned."""

from __future__ import annotations

import doctest
import importlib
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from dovetail import Optimizer, Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore"),  # the examples show old names, too
]
MODULES = ("catalog", "column", "conf", "dataframe", "group", "observation", "readwriter", "session", "tvf", "window")
LIKE_SPARK = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
LEAST = 200  # examples of all modules
STARTS_A_STREAM = "readStream"  # waits for seconds, and no stream goes through an installed optimizer


def examples(module: str) -> list[doctest.DocTest]:
    """The examples of a module of `pyspark.sql`, one for each docstring."""
    found = doctest.DocTestFinder().find(importlib.import_module(f"pyspark.sql.{module}"))
    return [one for one in found if one.examples and STARTS_A_STREAM not in (one.docstring or "")]


def outcome(spark: SparkSession, example: doctest.DocTest, *, installed: bool) -> tuple[int, str]:
    """How many lines of an example fail, and what they print."""
    from pyspark.sql import Row, functions

    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    names: dict[str, Any] = {"spark": session, "sc": session.sparkContext, "F": functions, "Row": Row, "os": os}
    copied = doctest.DocTest(example.examples, {**example.globs, **names}, example.name, None, None, example.docstring)
    printed = io.StringIO()
    opt = Optimizer.install(session, Options(force=True), frames=True) if installed else None
    try:
        found = doctest.DocTestRunner(optionflags=LIKE_SPARK, verbose=False).run(copied, out=printed.write)
    finally:
        if opt:
            opt.uninstall()
        session.catalog.clearCache()
    return found.failed, printed.getvalue()


def test_there_are_examples() -> None:
    assert sum(len(examples(module)) for module in MODULES) >= LEAST


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module(spark: SparkSession, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example that fails may be one that needs what is not here; it then fails so without Dovetail."""
    monkeypatch.chdir(Path(pyspark.__file__).parent)  # some read files of PySpark
    for example in examples(module):
        failed, printed = outcome(spark, example, installed=True)
        if failed:
            assert (failed, printed) == outcome(spark, example, installed=False), example.name
