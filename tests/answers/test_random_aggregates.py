"""Running sums, forced, return what plain Spark returns, on random aggregates over random band joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, note

from comparing import Raised, assert_same, few_rows, rows
from dovetail import Optimizer, Options
from random_aggregates import aggregates
from random_bands import RandomQuery
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.25)

FORCED = Options(force=True, strict=True)


@pytest.mark.hypothesis
@given(aggregates())
def test_the_same_rows_as_plain_spark(session: SparkSession, share: Share, case: RandomQuery) -> None:
    session.conf.set("spark.sql.ansi.enabled", str(case.ansi).lower())
    session.conf.set("spark.sql.session.timeZone", case.zone)
    for name, text in case.views.items():
        few_rows(session, name, text)
        note(f"{name}: {text}")
    note(f"ansi {case.ansi}, zone {case.zone}")
    note(case.query)
    plan = Optimizer(session, FORCED).plan(case.query)
    note(plan.sql())
    summed = "BandAggregate" in plan.explain()
    event(f"running sums {summed}")
    assert not any(d.rule == "schema check" for d in plan.declined), plan.declined
    if not share.count(summed):
        unsound = isinstance(rows(lambda: session.sql(case.query)), Raised)  # Spark itself does not take it
        assert plan.declined or plan.rewritten or unsound, "neither running sums nor a reason"
        for declined in plan.declined:
            event(declined.reason[-40:])
        if not plan.rewritten:  # such as only the nearest rows, of which min() takes one
            return
    assert_same(session, case.query, plan)
