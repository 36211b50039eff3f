"""What a query returns, in a form that two ways to run it can be compared by."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from hypothesis import currently_in_test_context, event, note

from optimizer.checks import schema_difference

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from optimizer import Plan


def rows(run: Callable[[], DataFrame]) -> Counter[tuple[Any, ...]] | str:
    """The multiset of rows, as text (Python has no year 10000 and no equal NaN); or the class of Spark's error."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        frame = run()
        names = [f"c{n}" for n in range(len(frame.columns))]
        texts = frame.toDF(*names).selectExpr(*(f"CAST({n} AS STRING)" for n in names))
        return Counter(map(tuple, texts.collect()))
    except PySparkException as error:
        return error.getCondition() or "error"
    except Py4JJavaError:  # what a broadcast raises
        return "error"


def both(one: Callable[[], DataFrame], other: Callable[[], DataFrame]) -> tuple[Any, Any]:
    """The rows of both, run at the same time: on a few rows Spark's driver is all that works."""
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(rows, (one, other))
        return next(found), next(found)


def assert_same(session: SparkSession, query: str, plan: Plan) -> None:
    """A plan returns the rows and the schema that plain Spark returns for the query; where Spark raises, it may too."""
    expected, found = both(lambda: session.sql(query), plan.dataframe)
    if currently_in_test_context():
        event(f"plain Spark raises {expected}" if isinstance(expected, str) else "rows" if expected else "no rows")
    if isinstance(expected, str):
        return
    assert found == expected
    assert schema_difference(session.sql(query).schema, plan.dataframe().schema) is None


def assert_taken(session: SparkSession, query: str, plan: Plan, rule: str, *, taken: bool) -> None:
    """A rule took the query, or did not, as said; and the plan returns what plain Spark returns."""
    if currently_in_test_context():
        note("\n".join([query, plan.sql(), *(f"{d.rule}: {d.reason}" for d in plan.declined)]))
        event(f"{rule}: {taken}")
    assert (rule in plan.rules) == taken
    assert plan.rewritten or not taken
    assert_same(session, query, plan)
