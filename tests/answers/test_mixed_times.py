"""Bands whose point and ends are DATE, TIMESTAMP and TIMESTAMP_NTZ at once, with dates that no timestamp reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from comparing import assert_same, few_rows
from dovetail import Optimizer, Options
from effort import examples
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

rewritten = at_least(0.5)

ENDS = (
    *("i.lo_{0}", "i.hi_{0}", "i.lo_d + i.days", "i.hi_d - i.days", "date_add(i.hi_d, i.days)", "date_sub(i.lo_d, 3)"),
    *("timestampadd(DAY, 1, i.hi_{0})", "i.hi_{0} + INTERVAL 30 HOURS", "i.lo_{0} - make_dt_interval(i.days % 50)"),
    *("CAST(i.lo_{0} AS TIMESTAMP)", "CAST(i.hi_{0} AS DATE)", "try_add(i.lo_d, i.days)"),
)
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
# Days after 9999-12-31 that timestamps reach or do not, and such that the count of days wraps around.
FAR = (1, 103_819_094, 103_819_097, 120_000_000, 2_000_000_000, 2_147_483_647, -2_147_483_648, -120_000_000)
WRAPPED = [(-1, 0, 2_147_483_647), (3, 5, 1), (4, -1, None)]
BEYOND = [(-1, 0, 120_000_000), (3, 5, 1)]
NEAR = [(n, 1, 0) for n in range(6)]


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """A band of which each comparison has its own types."""
    low, high = (draw(st.sampled_from(ENDS)).format(draw(st.sampled_from("ddtn"))) for _ in range(2))
    point = f"p.{draw(st.sampled_from('ddtn'))}"
    other = draw(st.sampled_from((point, point, "p.d", "p.t")))
    if draw(st.booleans()):
        return f"{point} BETWEEN {low} AND {high}"
    return f"{point} {draw(st.sampled_from(('>=', '>')))} {low} AND {high} {draw(st.sampled_from(('>=', '>')))} {other}"


@st.composite
def rows(draw: st.DrawFn) -> list[tuple[int, int, int | None]]:
    """Days of a low end, days to a high end, and days that a condition adds; of the far ones, the last is from FAR."""
    near = st.tuples(st.integers(0, 60), st.integers(-2, 9), st.one_of(st.none(), st.integers(-5, 5)))
    far = st.tuples(st.just(-1), st.integers(0, 5), st.sampled_from(FAR))
    return draw(st.lists(st.one_of(near, near, near, far), min_size=1, max_size=12))


@example("p.d BETWEEN i.lo_d + i.days AND timestampadd(DAY, 1, i.hi_d)", "JOIN", WRAPPED, NEAR, False)
@example("p.d >= try_add(i.lo_d, i.days) AND i.hi_n >= p.d", "LEFT JOIN", WRAPPED, NEAR, True)
@example("p.d <= i.lo_d AND i.lo_t <= p.d", "FULL JOIN", BEYOND, NEAR, False)
@settings(max_examples=examples(1 / 2))
@given(condition=conditions(), join=st.sampled_from(JOINS), intervals=rows(), points=rows(), generic_plan=st.booleans())
def test_each_comparison_keeps_its_own_types(
    session: SparkSession, rewritten: Share, condition: str, join: str, intervals: Any, points: Any, generic_plan: bool
) -> None:
    few_rows(session, "p", f"SELECT id, lo_d AS d, lo_t AS t, lo_n AS n FROM ({_relation(points)})")
    few_rows(session, "i", _relation(intervals))
    columns = "p.id" if "SEMI" in join or "ANTI" in join else "p.id, i.id AS i"
    query = f"SELECT {columns} FROM p {join} i ON {condition}"
    options = Options(nested_loop_pairs=0, broadcast_pairs=0, generic_plan=generic_plan, strict=True)
    plan = Optimizer(session, options).plan(query)
    note(f"{query}\n{plan.sql()}\n{plan.explain('cost')}")
    rewritten.count(plan.rewritten)
    assert_same(session, query, plan)


def _relation(rows: list[tuple[int, int, int | None]]) -> str:
    """Rows with both ends in every type; a far day stands in the DATE alone, and the timestamps are near."""
    values = ", ".join(
        f"({n}, {low}, {length}, {'CAST(NULL AS INT)' if days is None else days})"
        for n, (low, length, days) in enumerate(rows)
    )
    near_day = "DATE '2024-03-01' + greatest(low, 0)"
    day = f"(CASE WHEN low < 0 AND days % 2 = 0 THEN DATE '9999-12-31' + days ELSE {near_day} END)"
    near = "timestamp_seconds(1709251200 + 86400 * greatest(low, 0)"
    ends = [f"{day} AS lo_d", f"date_add({day}, length) AS hi_d"]
    for name, type_ in (("t", "TIMESTAMP"), ("n", "TIMESTAMP_NTZ")):
        ends += [
            f"CAST({near} + 3600 * length) AS {type_}) AS lo_{name}",
            f"CAST({near} + 90000 * length) AS {type_}) AS hi_{name}",
        ]
    return f"SELECT id, days, {', '.join(ends)} FROM VALUES {values} AS v(id, low, length, days)"
