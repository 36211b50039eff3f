"""Every rewriting, forced, returns what plain Spark returns, on random queries over random tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from comparing import assert_same
from optimizer import Optimizer, Options
from random_bands import RandomQuery, band_joins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = (
    Options(force=True, strict=True),
    Options(force=True, strict=True, measure_lengths=False),
    Options(force=True, strict=True, level_spread=1.5, level_reach=2),
)


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
    assert_same(session, case.query, plan)
