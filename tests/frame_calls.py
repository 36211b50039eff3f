"""Every function that Spark lists, called in DataFrames with a band join; literals of its examples are columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from spark_examples import Example

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class FrameCall:
    """A call in a DataFrame whose rows are few; ``below``: the same call in a relation of the join."""

    text: str
    above: DataFrame
    below: DataFrame


def frame_call(session: SparkSession, examples: list[Example]) -> FrameCall | None:
    """Return the first example that Spark analyzes in a DataFrame; None if there is none."""
    for example in examples:
        if "SELECT" in " ".join(map(str, example.pieces)).upper():
            continue
        for text, columns in _spellings(example):
            with suppress(PySparkException):
                return _frames(session, text, columns)
    return None


def _spellings(example: Example) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """The example with its literals as columns, and, for what must be a literal, as they are."""
    for all_columns in (True, False):
        text = ""
        columns: list[tuple[str, ...]] = []
        for piece in example.pieces:
            if isinstance(piece, str):
                text += piece
            elif all_columns or len(piece) > 1:
                text += f"a.c{len(columns)}"
                columns.append(piece)
            else:
                text += piece[0]
        yield text, columns


def _frames(session: SparkSession, text: str, columns: list[tuple[str, ...]]) -> FrameCall:
    from pyspark.sql.functions import expr

    items = ["id AS k", *(f"{_column(values)} AS c{n}" for n, values in enumerate(columns))]
    values = session.sql(f"SELECT {', '.join(items)} FROM range(6)")
    bands = session.range(4).selectExpr("id AS band", "id AS lo", "id + 2 AS hi").alias("b")
    pairs = values.alias("a").join(bands, expr("a.k BETWEEN b.lo AND b.hi"))
    try:
        above = pairs.select("b.band", "a.k", expr(text))
        made = values.alias("a").select("a.k", expr(text))
        if above._jdf.queryExecution().analyzed().containsPattern(_aggregates(session)):
            raise PySparkException("an aggregate of all rows")
    except PySparkException:
        above = pairs.groupBy("b.band").agg(expr(text))
        made = values.alias("a").groupBy("a.k").agg(expr(text))
    above, made = above.toDF(*_names(above)), made.toDF(*_names(made))
    return FrameCall(text, above, made.join(bands, expr("c0 BETWEEN b.lo AND b.hi")))


def _names(frame: DataFrame) -> list[str]:
    return [f"c{n}" for n in range(len(frame.columns))]


def _aggregates(session: SparkSession) -> object:
    return session._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.AGGREGATE()  # type: ignore[union-attr]


def _column(values: tuple[str, ...]) -> str:
    """A literal, or one of several by the number of the row."""
    if len(values) == 1:
        return values[0]
    return f"CASE id {' '.join(f'WHEN {n} THEN {value}' for n, value in enumerate(values))} END"
