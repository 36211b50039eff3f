"""What a query returns, in a form that two ways to run it can be compared by.

Where plain Spark raises, this must hold:

- If Spark does not take the query, it does not take it from Dovetail either, for the same reason.
- If it raises over the rows, the schema is still the same.  Dovetail may return rows, since a pair that bins keep apart
  is never asked about; or it raises over the rows, too, for the same reason or for another that lies in values
  (``OF_VALUES``): which of its expressions Spark looks at first hangs on its plan.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from hypothesis import currently_in_test_context, event, note

import second_engine
from dovetail.optimizer.planning.validation import schema_difference
from execution import begin_example

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from dovetail import Plan

# What Spark raises for a value that an expression cannot take, by the first word of the condition.
OF_VALUES = frozenset(
    "ARITHMETIC_OVERFLOW BINARY_ARITHMETIC_OVERFLOW CAST_INVALID_INPUT CAST_OVERFLOW DATETIME_OVERFLOW DIVIDE_BY_ZERO "
    "INTERVAL_ARITHMETIC_OVERFLOW INVALID_ARRAY_INDEX INVALID_INDEX_OF_ZERO NUMERIC_VALUE_OUT_OF_RANGE "
    "REMAINDER_BY_ZERO SCALAR_SUBQUERY_TOO_MANY_ROWS USER_RAISED_EXCEPTION".split()
)


def few_rows(session: SparkSession, name: str, query: str) -> None:
    """A temporary view that is analyzed once; one that SQL makes is text, analyzed anew wherever a statement names it.

    `CREATE TEMP VIEW` stays where what Spark keeps of a view matters.
    """
    session.sql(query).createOrReplaceTempView(name)


@dataclass(frozen=True)
class Raised:
    """An error of Spark's: ``taken`` tells whether it took the query and raised over its rows."""

    condition: str
    taken: bool

    @property
    def of_values(self) -> bool:
        """Whether values can be the reason."""
        return self.taken and self.condition.partition(".")[0] in OF_VALUES


@dataclass(frozen=True)
class Returned:
    """The rows as a multiset of texts (Python has no year 10000 and no equal NaN), or an error; None for no schema."""

    rows: Counter[tuple[Any, ...]] | Raised
    schema: StructType | None


def returned(run: Callable[[], DataFrame]) -> Returned:
    """Run a query."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    schema = None
    try:
        frame = run()
        schema = frame.schema
        names = frame.columns
        if len(set(map(str.lower, names))) < len(names):
            frame = frame.toDF(*(f"c{n}" for n in range(len(names))))
        texts = frame.selectExpr(*(f"CAST(`{n.replace('`', '``')}` AS STRING)" for n in frame.columns))
        return Returned(Counter(map(tuple, texts.collect())), schema)
    except PySparkException as error:
        return Returned(Raised(error.getCondition() or "error", schema is not None), schema)
    except Py4JJavaError as error:  # what a broadcast raises
        return Returned(Raised(_condition(error.java_exception), schema is not None), schema)


def _condition(thrown: Any) -> str:
    """The condition of the first of Spark's own errors among the causes.

    Where tasks of two stages raise before Spark ends the query, it wraps both errors; otherwise it raises the one.
    """
    from py4j.protocol import Py4JError

    while thrown is not None:
        with suppress(Py4JError):  # of Java's own errors, which have none
            condition = thrown.getCondition()
            if condition and condition != "STAGE_MATERIALIZATION_MULTIPLE_FAILURES":
                return str(condition)
        if thrown.getClass().getName() == "java.lang.ArithmeticException":  # Spark converts days without a check
            return "ARITHMETIC_OVERFLOW"
        thrown = thrown.getCause()
    return "error"


def rows(run: Callable[[], DataFrame]) -> Counter[tuple[Any, ...]] | Raised:
    """The rows of a query, or the error that Spark raises."""
    return returned(run).rows


class Runs(Protocol):
    """A plan, or what stands for one."""

    def dataframe(self) -> DataFrame: ...


def both(one: Callable[[], DataFrame], other: Callable[[], DataFrame]) -> tuple[Returned, Returned]:
    """What both return, run at the same time: on a few rows Spark's driver is all that works."""
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(returned, (one, other))
    return first, second


def assert_same(session: SparkSession, query: str, plan: Plan | Runs, args: Any = None) -> None:
    """A plan returns the rows and the schema that plain Spark returns for the query; where Spark raises, see above."""
    if currently_in_test_context():
        begin_example(session, query)
    plain, ours = both(lambda: session.sql(query, args) if args else session.sql(query), plan.dataframe)
    expected, found = plain.rows, ours.rows
    if currently_in_test_context():
        event(
            f"plain Spark raises {expected.condition}"
            if isinstance(expected, Raised)
            else "rows"
            if expected
            else "no rows"
        )
    if isinstance(expected, Raised) and not expected.taken:
        assert found == expected
        return
    assert schema_difference(plain.schema, ours.schema) is None
    if isinstance(expected, Raised):
        assert not isinstance(found, Raised) or found == expected or (found.of_values and expected.of_values)
        return
    assert found == expected
    if second_engine.FILE:
        second_engine.note_difference(session, query, expected)


def assert_taken(session: SparkSession, query: str, plan: Plan, rule: str, *, taken: bool) -> None:
    """A rule took the query, or did not, as said; and the plan returns what plain Spark returns."""
    if currently_in_test_context():
        note("\n".join([query, plan.sql(), *(f"{d.rule}: {d.reason}" for d in plan.declined)]))
        event(f"{rule}: {taken}")
    assert (rule in plan.rules) == taken
    assert plan.rewritten or not taken
    assert_same(session, query, plan)
