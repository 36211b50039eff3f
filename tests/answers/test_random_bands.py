"""Every rewriting, forced, returns what plain Spark returns, on random queries over random tables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from optimizer import Optimizer, Options
from random_bands import RandomQuery, band_joins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = (
    Options(force=True, strict=True),
    Options(force=True, strict=True, measure_lengths=False),
    Options(force=True, strict=True, level_spread=1.5, level_reach=2),
)


def rows(session: SparkSession, run: Any) -> Counter[tuple[Any, ...]] | str:
    """The multiset of rows, as text (Python has no year 10000 and no equal NaN); or the class of Spark's error."""
    from pyspark.errors import PySparkException

    try:
        frame = run()
        names = [f"c{n}" for n in range(len(frame.columns))]
        texts = frame.toDF(*names).selectExpr(*(f"CAST({n} AS STRING)" for n in names))
        return Counter(map(tuple, texts.collect()))
    except PySparkException as error:
        return error.getCondition() or "error"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session with views and settings of its own."""
    return spark.newSession()


@pytest.mark.hypothesis
@given(band_joins(), st.sampled_from(OPTIONS))
def test_the_same_rows_as_plain_spark(session: SparkSession, case: RandomQuery, options: Options) -> None:
    session.conf.set("spark.sql.ansi.enabled", str(case.ansi).lower())
    session.conf.set("spark.sql.session.timeZone", case.zone)
    for view in case.views:
        session.sql(view)
        note(view)
    note(f"ansi {case.ansi}, zone {case.zone}, {options}")
    note(case.query)
    plan = Optimizer(session, options).plan(case.query)
    note(plan.sql())
    event(f"rewritten {plan.rewritten}")
    if not plan.rewritten:
        assert plan.declined, "neither rewritten nor a reason"
        return
    expected = rows(session, lambda: session.sql(case.query))
    if isinstance(expected, str):
        event(f"plain Spark raises {expected}")
        return
    event("rows" if expected else "no rows")
    assert rows(session, plan.dataframe) == expected
    assert plan.dataframe().schema == session.sql(case.query).schema
