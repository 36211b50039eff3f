"""Our lists of Spark's functions, against the Spark that is installed."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from dovetail.planner.expr.calls import KNOWN
from dovetail.planner.expr.functions import AGGREGATES, ROW_FUNCTIONS, VOLATILE

# Neither of one row nor aggregates: of several rows, of a window, of a table, or operators.
OTHERS = """
count sum avg mean min max grouping grouping_id measure any_value between case cast in when and or not
explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode
variant_explode_outer schema_of_variant_agg collations sql_keywords python_worker_logs range
row_number rank dense_rank percent_rank cume_dist ntile nth_value lag lead counter_diff
window session_window window_time
vector_sum vector_avg
""".upper().split()


def of_spark(spark: SparkSession) -> dict[str, str]:
    """The names of Spark's own functions, and the group that each belongs to."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    jvm: Any = spark._jvm
    catalog = spark._jsparkSession.sessionState().catalog()
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    names = [row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    found = {}
    for name in (n for n in names if n[0].isalpha()):
        try:
            found[name.upper()] = catalog.lookupFunctionInfo(identifier(name)).getGroup()
        except Py4JError:  # words that are grammar
            found[name.upper()] = ""
    return found


def test_every_function_of_spark_is_known_for_what_it_is(spark: SparkSession) -> None:
    groups = of_spark(spark)
    listed = ROW_FUNCTIONS | VOLATILE | AGGREGATES
    assert {name for name in listed if name not in groups} <= {"EXISTS", "DECIMAL"}
    aggregates = {name for name, group in groups.items() if group == "agg_funcs"}
    assert aggregates - set(OTHERS) <= AGGREGATES
    assert aggregates.isdisjoint(ROW_FUNCTIONS | VOLATILE)
    several = {name for name, group in groups.items() if group in ("generator_funcs", "table_funcs", "window_funcs")}
    assert several.isdisjoint(listed)


def test_what_spark_calls_volatile_is_not_steady(spark: SparkSession) -> None:
    """The registry makes the expression of a call; a statement for each took fifty times as long."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    jvm: Any = spark._jvm
    state = spark._jsparkSession.sessionState()
    literals = [state.sqlParser().parseExpression(text) for text in ("1", "'a'")]
    calls = [jvm.PythonUtils.toSeq([literal] * n) for n in range(5) for literal in literals]
    identifier = getattr(jvm, "org.apache.spark.sql.catalyst.FunctionIdentifier")
    asked = set()
    for name in sorted(ROW_FUNCTIONS):
        for arguments in calls:
            try:
                expression = state.catalog().lookupFunction(identifier(name.lower()), arguments)
            except (PySparkException, Py4JError):
                continue
            assert expression.deterministic(), name
            asked.add(name)
    assert len(asked) > len(ROW_FUNCTIONS) * 0.95, sorted(ROW_FUNCTIONS - asked)


def test_names_are_of_one_list() -> None:
    assert not ROW_FUNCTIONS & VOLATILE
    assert not ROW_FUNCTIONS & AGGREGATES
    assert KNOWN >= ROW_FUNCTIONS | VOLATILE


def test_whose_functions_names_mean(spark: SparkSession) -> None:
    from dovetail.executor.session.functions import user_functions, user_functions_in_catalog, user_functions_in_sql

    session = spark.newSession()
    session.udf.register("abs", lambda value: 42, "int")
    session.udf.register("mine", lambda value: 42, "int")
    session.sql("CREATE TEMPORARY FUNCTION theirs(a INT) RETURNS INT RETURN a")
    means = {"ABS": 42, "MINE": 42, "THEIRS": -1}
    users = {name for name, value in means.items() if session.sql(f"SELECT {name}(-1)").collect()[0][0] == value}
    names = frozenset((*means, "SUM", "COALESCE", "CAST", "NO_SUCH_FUNCTION"))
    assert user_functions_in_catalog(session, names) == user_functions_in_sql(session, names) == users
    assert user_functions(session, names) == users & KNOWN == set(), "Spark's own functions come first"
