"""Bands over expressions: forced, they return what plain Spark returns, and never raise where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from comparing import assert_same, few_rows
from dovetail import Optimizer, Options
from random_expressions import RandomQuery, expression_joins
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.7)

OPTIONS = (Options(force=True, strict=True), Options(force=True, strict=True, measure_lengths=False))


@pytest.mark.hypothesis
@given(expression_joins(), st.sampled_from(OPTIONS))
def test_the_same_rows_as_plain_spark(session: SparkSession, share: Share, case: RandomQuery, options: Options) -> None:
    for name, value in case.settings.items():
        session.conf.set(name, value)
    for name, text in case.views.items():
        few_rows(session, name, text)
        note(f"{name}: {text}")
    note(f"{case.settings}, {options}")
    note(case.query)
    plan = Optimizer(session, options).plan(case.query)
    note(plan.sql())
    event(f"rewritten {plan.rewritten}")
    if not share.count(plan.rewritten):
        return
    assert_same(session, case.query, plan)
