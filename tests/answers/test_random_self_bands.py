"""Windows, forced, return what plain Spark returns, on random aggregates over bands of a table's own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, note

from comparing import Raised, assert_same, few_rows, rows
from dovetail import Optimizer, Options
from random_self_bands import SelfBand, self_bands
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.25)

FORCED = Options(force=True, strict=True)


@pytest.mark.hypothesis
@given(self_bands())
def test_the_same_rows_as_plain_spark(session: SparkSession, share: Share, case: SelfBand) -> None:
    session.conf.set("spark.sql.ansi.enabled", str(case.ansi).lower())
    session.conf.set("spark.sql.session.timeZone", case.zone)
    few_rows(session, "t", case.table)
    note(case.table)
    note(f"ansi {case.ansi}, zone {case.zone}")
    note(case.query)
    plan = Optimizer(session, FORCED).plan(case.query)
    note(plan.sql())
    windowed = "BandWindow" in plan.explain()
    event(f"windows {windowed}")
    assert not any(d.rule == "schema check" for d in plan.declined), plan.declined
    if not share.count(windowed):
        unsound = isinstance(rows(lambda: session.sql(case.query)), Raised)  # Spark itself does not take it
        assert plan.declined or unsound, "neither windows nor a reason"
        for declined in plan.declined:
            event(declined.reason[-40:])
        return
    assert_same(session, case.query, plan)
