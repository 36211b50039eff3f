"""Every function of SHOW FUNCTIONS in DataFrames: written by its registered name, or left above the rewriting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from dovetail import Optimizer, Options
from dovetail.executor.dataframes.function_registry import function_registry
from dovetail.executor.dataframes.plan_reader import PlanReader
from effort import quick
from frame_calls import frame_call
from spark_examples import examples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
SHARDS = 12
EACH = 4 if quick() else 1  # `make test` takes one function of so many
# Functions whose values differ in another plan: the frame stays as it is, with a reason.
VOLATILE = {
    *("monotonically_increasing_id", "rand", "randn", "random", "randstr", "reflect", "java_method", "try_reflect"),
    *("shuffle", "spark_partition_id", "uniform", "uuid"),
    *("input_file_block_length", "input_file_block_start", "input_file_name"),
}
# Functions whose values depend on the order of the rows of a group, of rows that tie, or on the moment.
OTHER_VALUES = {
    *("lag", "lead", "nth_value", "ntile", "row_number"),
    *("any_value", "array_agg", "collect_list", "collect_set", "first", "first_value", "last", "last_value"),
    *("listagg", "max_by", "min_by", "mode", "string_agg", "approx_top_k", "histogram_numeric", "aes_encrypt"),
    *("current_time", "current_timestamp", "localtime", "localtimestamp", "now", "unix_timestamp"),
}


@pytest.fixture(scope="module")
def opt(spark: SparkSession) -> Optimizer:
    return Optimizer(spark.newSession(), Options(force=True, strict=True))


def outcome(frame: DataFrame) -> list[str] | str:
    """The rows, or the condition of the error that Spark raises."""
    try:
        return sorted(map(str, frame.collect()))
    except PySparkException as error:
        return str(error.getCondition())


@pytest.mark.parametrize("shard", range(SHARDS))
def test_each_function_above_and_below_a_band_join(opt: Optimizer, shard: int) -> None:
    found = examples(opt.session)
    called = 0
    for name in sorted(found)[shard :: SHARDS * EACH]:
        call = frame_call(opt.session, found[name])
        if call is None:
            continue
        called += 1
        for frame in (call.above, call.below):
            plan = opt.plan(frame)
            if not plan.rewritten:
                assert name in VOLATILE, f"{call.text}: {plan.explain()}"
                assert plan.declined, call.text
            elif name not in OTHER_VALUES | VOLATILE:
                assert outcome(plan.dataframe()) == outcome(frame), call.text
            assert plan.dataframe().schema == frame.schema
    assert called >= 0.85 * len(found) / SHARDS // EACH, "most functions have an example that runs"


def test_most_functions_are_written(opt: Optimizer) -> None:
    """Where one is not, the rules see the join without what is above it."""
    from dovetail.executor.dataframes.statement import FramePart
    from dovetail.planner.errors import Refused

    found = examples(opt.session)
    unwritten = set()
    for name in sorted(found)[:: 4 * EACH]:
        if call := frame_call(opt.session, found[name]):
            part = FramePart(opt.session, call.above)
            try:
                for way in part.ways():
                    with way.statement.views():
                        difference = way.find_difference()
                    if not difference:
                        break
                else:
                    unwritten.add(name)
            except Refused:
                unwritten.add(name)
    assert len(unwritten - VOLATILE) <= 20 // EACH, unwritten


NAMES = {
    "DateFormatClass": "date_format",
    "RegExpReplace": "regexp_replace",
    "StringSplit": "split",
    "StartsWith": "startswith",
    "HyperLogLogPlusPlus": "approx_count_distinct",
    "Average": "avg",
    "Log": "ln",
    "Logarithm": "log",
    "StringLPad": "lpad",
    "Ceil": "ceil",
    "MaxBy": "max_by",
    "OfAnotherLibrary": "of_another_library",
}


@pytest.mark.parametrize("of_class", NAMES)
def test_names_are_those_of_the_registry(spark: SparkSession, of_class: str) -> None:
    assert function_registry(spark._jvm).find(of_class) == NAMES[of_class]
    assert function_registry(spark._jvm) is function_registry(spark._jvm)


def test_an_expression_with_a_name_of_its_own(opt: Optimizer) -> None:
    from pyspark.sql import functions as f

    left, right = opt.session.range(20).alias("a"), opt.session.range(9).selectExpr("id AS lo", "id + 2 AS hi")
    joined = left.join(right, f.expr("a.id BETWEEN lo AND hi")).select(
        f.date_format(f.timestamp_seconds("id"), "yyyy").alias("y"),
        f.transform(f.array("lo", "hi"), lambda x, n: x + n).alias("t"),
        f.zip_with(f.array("lo"), f.array("hi"), lambda x, y: x + y).alias("z"),
        f.to_date(f.lit("2024-01").cast("string"), "yyyy-MM").alias("d"),
    )
    reader = PlanReader(joined, coerced=True)
    text = reader.blocks.write(reader.read(), joined.columns)
    for call in ("date_format(", "transform(array(", "-> ", "zip_with(", "to_date("):
        assert call in text
    assert opt.plan(joined).rewritten
