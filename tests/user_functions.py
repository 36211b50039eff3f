"""Functions of the user's own under names that mean something: to sqlglot and not to Spark, or to Spark itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from dovetail.planner.expr.calls import KNOWN
from spark_calls import REFUSED, Call

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# With one argument and up to four; no function of these names computes this.
_BODY = "(a INT, b INT DEFAULT 2, c INT DEFAULT 3, d INT DEFAULT 1) RETURNS INT RETURN (a * b - c * 2) * d"
_ARGUMENTS = ("§k", "§k, 3", "§k, §id, 4", "§k, 2, §g, 3")


def names_of_sqlglot(session: SparkSession) -> list[str]:
    """The functions that sqlglot reads by name and Spark has neither as functions nor, as `timestampadd`, as syntax."""
    known = {name.lower() for function in exp.ALL_FUNCTIONS for name in function.sql_names()}
    known |= {name.lower() for name in Spark.Parser.FUNCTIONS}
    spark = {name for (name,) in session.sql("SHOW SYSTEM FUNCTIONS").collect()} | {name.lower() for name in KNOWN}
    return sorted(name for name in known - spark if name.isidentifier())


def create(session: SparkSession, names: list[str]) -> list[Call]:
    """Create functions under these names, and say how they are called; not those that Spark does not take.

    A name of Spark's own can only be given to a function while Spark's own come first.
    """
    found = []
    for name in names:
        try:
            session.sql(f"CREATE TEMPORARY FUNCTION `{name}`{_BODY}")
        except REFUSED:
            continue
        found += [Call((name,), "scalar", f"{name}({said})", "int") for said in _ARGUMENTS]
    return found
