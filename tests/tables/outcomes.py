"""What came of a query over tables of a format, in a few words."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dovetail import Optimizer, Options

REWRITTEN, AS_WRITTEN = "rewritten", "as written"
BAND = "p.x BETWEEN i.lo AND i.hi"


def optimizer(session: SparkSession) -> Optimizer:
    """An optimizer that rewrites whatever it can."""
    return Optimizer(session, Options(force=True, strict=True))


def rows(frame: DataFrame) -> Counter[str]:
    """The rows of a DataFrame, as texts."""
    return Counter(map(repr, frame.collect()))


def outcome(opt: Optimizer, text: str, *, differs_from: Counter[str] | None = None, instead: str = "") -> str:
    """Run a statement with Dovetail and with plain Spark.

    ``differs_from``: rows that have to be others, or the comparison would prove little.  ``instead``: what plain Spark
    runs, if it does not take the statement.
    """
    try:
        wanted = rows(opt.session.sql(instead or text))
    except Exception as error:  # noqa: BLE001 - of Spark, or of the format in the JVM
        return f"Spark alone: {first_line(error)}"
    if not wanted:
        return "no rows to compare"
    if wanted == differs_from:
        return "the rows of another version"
    try:
        plan = opt.plan(text)
        found = rows(plan.run())
    except Exception as error:  # noqa: BLE001
        return first_line(error)
    return word(plan.rewritten) if found == wanted else f"other rows: {found - wanted} for {wanted - found}"


def word(rewritten: Any) -> str:
    """The word for a plan with equal rows."""
    return REWRITTEN if rewritten else AS_WRITTEN


def first_line(error: Exception) -> str:
    """The kind and the first line of an error, of the one in the JVM if PySpark does not know it."""
    java = getattr(error, "java_exception", None)
    text = str(java.toString() if java is not None else error).strip()
    return f"{type(error).__name__}: {next(iter(text.splitlines()), '')}"[:300]
