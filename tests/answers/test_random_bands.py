"""Every rewriting, forced, returns what plain Spark returns, on random queries over random tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from comparing import assert_same, few_rows
from dovetail import Optimizer, Options
from random_bands import RandomQuery, band_joins
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.8)

SORTED = Options(
    nested_loop_pairs=0,
    broadcast_pairs=0,
    key_pairs_per_row=0,
    hash_from_bytes=0,
    hash_join_bytes=0,
    hash_build_bytes=0,
    strict=True,
)
OPTIONS = (
    Options(force=True, strict=True),
    Options(force=True, strict=True, measure_lengths=False),
    Options(force=True, strict=True, level_spread=1.5, level_reach=2),
    SORTED,
)


@pytest.mark.hypothesis
@given(band_joins(), st.sampled_from(OPTIONS))
def test_the_same_rows_as_plain_spark(session: SparkSession, share: Share, case: RandomQuery, options: Options) -> None:
    compare(session, share, case, options)


@pytest.mark.hypothesis
@given(band_joins(keyed=True))
def test_sorted_with_equal_columns_in_the_bins(session: SparkSession, share: Share, case: RandomQuery) -> None:
    compare(session, share, case, SORTED)


def compare(session: SparkSession, share: Share, case: RandomQuery, options: Options) -> None:
    """The plan returns what plain Spark returns, or there is a reason why the query is left as it is."""
    for name, value in case.settings.items():
        session.conf.set(name, value)
    for name, text in case.views.items():
        few_rows(session, name, text)
        note(f"{name}: {text}")
    note(f"{case.settings}, {options}")
    note(case.query)
    plan = Optimizer(session, options).plan(case.query)
    note(plan.sql())
    event(f"rewritten {plan.rewritten}, hashed into bins {'xxhash64' in plan.sql()}")
    if not share.count(plan.rewritten):
        assert plan.declined, "neither rewritten nor a reason"
        return
    assert_same(session, case.query, plan)
