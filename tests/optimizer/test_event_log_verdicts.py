"""Conditions as physical plans write them, and what is read from them."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.optimizer.advise.event_log.findings import Candidate, candidates
from dovetail.optimizer.advise.event_log.plan_nodes import read_plan

LEFT = "FileScan parquet [x#6L,order day#7,d#8,s#9,ts#10]"
LEFT_SCHEMA = "struct<x:bigint,order day:date,d:date,s:string,ts:timestamp>"
RIGHT = "FileScan parquet [lo#16L,hi#17L,s#19,e#20]"
RIGHT_SCHEMA = "struct<lo:bigint,hi:bigint,s:string,e:date>"


def scan(text: str, schema: str) -> dict[str, Any]:
    return {"nodeName": "Scan parquet ", "simpleString": text, "children": [], "metadata": {"ReadSchema": schema}}


def joined(text: str, above: str = "Project [x#6L]", right: str = RIGHT, schema: str = RIGHT_SCHEMA) -> Candidate:
    inputs = [scan(LEFT, LEFT_SCHEMA), scan(right, schema)]
    join = {"nodeName": text.split()[0], "simpleString": text, "children": inputs}
    root = read_plan({"nodeName": above.split("(")[0].split()[0], "simpleString": above, "children": [join]})
    assert root is not None
    (candidate,) = candidates(root, 1)
    return candidate


NESTED = "BroadcastNestedLoopJoin BuildRight, Inner, "


@pytest.mark.parametrize(
    ("condition", "answer", "reason"),
    [
        ("((x#6L >= lo#16L) AND (x#6L <= hi#17L))", "yes", "x between lo and hi."),
        ("((cast(x#6L as double) >= (cast(lo#16L as double) - 1.5)) AND (x#6L < hi#17L))", "yes", "x"),
        ("(((x#6L - lo#16L) >= -5) AND ((x#6L - lo#16L) <= 5))", "yes", "x (left side) minus lo (right side) lies"),
        ("((e#20 >= date_sub(d#8, 7)) AND (e#20 <= d#8))", "yes", "minus e (right side) lies between 0d and 7d."),
        ("((d#8 >= e#20) AND (d#8 < 2026-01-01))", "no", "d >= e bounds d on one side only"),
        ("((ts#10 >= cast(e#20 as timestamp)) AND (2026-01-01 00:00:00 > ts#10))", "no", "bounds ts on one side only"),
        ("(NOT (s#9 = s#19) AND (x#6L >= lo#16L))", "no", "x >= lo bounds x on one side only"),
        ("((s#9 >= s#19) AND (s#9 <= concat(s#19, ~)))", "cannot tell", "cannot be read"),
        ("((order day#7 >= e#20) AND (order day#7 <= date_add(e#20, 3)))", "cannot tell", "cannot be read"),
        ("(x#6L > Subquery scalar-subquery#33, [id=#12])", "cannot tell", "has a subquery"),
        ("((x#6L >= lo#16L) AND (x#99L <= hi#17L))", "cannot tell", "neither side of the join shows"),
        ("((pythonUDF0#44L >= lo#16L) AND (pythonUDF0#44L <= hi#17L))", "no", "A Python function"),
        ("(s#9 LIKE s#19)", "yes", "gives the rows of both sides keys"),
    ],
)  # fmt: skip
def test_a_condition(condition: str, answer: str, reason: str) -> None:
    found = joined(NESTED + condition)
    assert found.join.condition == condition
    assert reason in found.verdict.reason
    assert found.verdict.answer == answer


@pytest.mark.parametrize(
    ("type_", "condition", "answer"),
    [
        ("LeftSemi", "(x#6L >= lo#16L)", "yes"),
        ("LeftAnti", "((x#6L + 1) < lo#16L)", "yes"),
        ("LeftAnti", "((x#6L >= lo#16L) AND (x#6L > hi#17L))", "no"),
        ("LeftSemi", "((x#6L - lo#16L) > 5)", "no"),
        ("LeftSemi", "(NOT (s#9 = s#19) AND (x#6L >= lo#16L))", "no"),
        ("LeftOuter", "(x#6L >= lo#16L)", "no"),
    ],
)
def test_one_bound_of_a_semi_or_anti_join(type_: str, condition: str, answer: str) -> None:
    verdict = joined(f"BroadcastNestedLoopJoin BuildRight, {type_}, {condition}").verdict
    assert (verdict.answer, verdict.rewriting) == (answer, "least or greatest value" if answer == "yes" else "")


@pytest.mark.parametrize(
    ("right", "answer", "reason"),
    [
        ("LocalTableScan [a#30, b#31]", "yes", "The columns have to be numbers, dates or times."),
        (
            "Project [cast(a#1 as string) AS a#30, f(b#2) AS b#31]",
            "yes",
            "have to be numbers, dates or times.",
        ),
        ("Project [cast(a#1 as decimal(10,2)) AS a#30, cast(b#2 as int) AS b#31]", "yes", "x between a and b."),
    ],
)
def test_types_that_casts_show(right: str, answer: str, reason: str) -> None:
    verdict = joined(NESTED + "((x#6L >= a#30) AND (x#6L <= b#31))", right=right, schema="").verdict
    assert verdict.reason.endswith(reason)
    assert verdict.answer == answer


def test_types_that_no_scan_shows_are_a_condition_of_the_answer() -> None:
    condition = "((d#8 >= e#20) AND (d#8 <= date_add(e#20, 3)))"
    verdict = joined(NESTED + condition, right="LocalTableScan [e#20]", schema="").verdict
    assert verdict.reason == (
        "d (left side) minus e (right side) lies between 0d and 3d. The columns have to be numbers, dates or times."
    )


def test_a_column_of_both_sides_cannot_be_placed() -> None:
    found = joined(NESTED + "((x#6L >= lo#16L) AND (x#6L <= hi#17L))", right=RIGHT.replace("s#19", "x#6L"))
    assert "both sides of the join have x" in found.verdict.reason
    assert found.verdict.answer == "cannot tell"


ABOVE_ONE_BOUND = [
    ("HashAggregate(keys=[id#1], functions=[partial_max_by(hi#17L, lo#16L)])", "yes"),
    ("HashAggregate(keys=[id#1], functions=[max(lo#16L), first(x#6L), max_by(struct(hi#17L), lo#16L)])", "yes"),
    ("SortAggregate(key=[id#1], functions=[max(named_struct(lo, lo#16L, hi, hi#17L))])", "yes"),
    ("HashAggregate(keys=[id#1], functions=[min(lo#16L)])", "no"),
    ("HashAggregate(keys=[id#1], functions=[partial_sum(lo#16L)])", "no"),
    ("HashAggregate(keys=[id#1], functions=[max(lo#16L), sum(hi#17L)])", "no"),
    ("HashAggregate(keys=[hi#17L], functions=[max(lo#16L)])", "no"),
    ("HashAggregate(keys=[id#1], functions=[max(price#40)])", "no"),
    ("WindowGroupLimit [x#6L], [lo#16L DESC NULLS LAST], row_number(), 1, Final", "yes"),
    ("WindowGroupLimit [x#6L], [lo#16L ASC NULLS FIRST], row_number(), 1, Final", "no"),
    ("Window [row_number() windowspecdefinition(x#6L, lo#16L DESC) AS r#5], [x#6L], [lo#16L DESC NULLS LAST]", "yes"),
    ("Window [row_number() windowspecdefinition(x#6L, hi#17L DESC) AS r#5], [x#6L], [hi#17L DESC NULLS LAST]", "no"),
    ("Window [row_number() windowspecdefinition(lo#16L DESC) AS r#5], [lo#16L DESC NULLS LAST]", "no"),
    ("Window [sum(lo#16L) windowspecdefinition(x#6L, lo#16L DESC) AS r#5], [x#6L], [lo#16L DESC NULLS LAST]", "no"),
    ("SortMergeJoin [x#6L], [y#7], Inner", "no"),
]  # fmt: skip


@pytest.mark.parametrize(("above", "answer"), ABOVE_ONE_BOUND)
def test_one_bound_is_nearest_rows_below_a_ranking_by_its_column(above: str, answer: str) -> None:
    verdict = joined(f"{NESTED}(x#6L >= lo#16L)", above).verdict
    assert (verdict.answer, verdict.rewriting) == (answer, "nearest rows" if answer == "yes" else "")


def test_the_first_row_after_a_value_is_the_least_one() -> None:
    above = "HashAggregate(keys=[id#1], functions=[min(lo#16L)])"
    assert joined(f"{NESTED}(lo#16L > x#6L)", above).verdict.rewriting == "nearest rows"


@pytest.mark.parametrize(
    ("above", "answer"),
    [
        ("SortAggregate(key=[id#1], functions=[min_by(struct(a, lo#16L), abs((x#6L - lo#16L)), 1, true)])", "yes"),
        ("HashAggregate(keys=[id#1], functions=[min(abs((x#6L - lo#16L)))])", "yes"),
        ("HashAggregate(keys=[id#1], functions=[max(abs((x#6L - lo#16L)))])", "no"),
        ("HashAggregate(keys=[id#1], functions=[min(abs((hi#17L - lo#16L)))])", "no"),
        ("HashAggregate(keys=[id#1], functions=[min(abs((x#6L - lo#16L))), count(1)])", "no"),
    ],
)  # fmt: skip
def test_no_condition_is_nearest_rows_below_a_ranking_by_a_distance(above: str, answer: str) -> None:
    verdict = joined("BroadcastNestedLoopJoin BuildRight, Cross", above).verdict
    assert verdict.answer == answer
    assert ("abs(x - lo) is the distance" in verdict.reason) is (answer == "yes")


@pytest.mark.parametrize(
    ("text", "type_", "keys", "condition"),
    [
        ("BroadcastNestedLoopJoin BuildLeft, RightOuter", "RightOuter", (), ""),
        ("BroadcastNestedLoopJoin BuildRight, Inner, (s#9 = a, (b)", "Inner", (), "(s#9 = a, (b)"),
        ("CartesianProduct (x#6L < lo#16L)", "Inner", (), "(x#6L < lo#16L)"),
        (
            "SortMergeJoin(skew=true) [x#6L, f(s#9, 1)], [lo#16L, s#19], LeftOuter, (d#8 < e#20)",
            "LeftOuter", (("x#6L", "lo#16L"), ("f(s#9, 1)", "s#19")), "(d#8 < e#20)",
        ),
        ("ShuffledHashJoin [x#6L], [lo#16L], LeftSemi, BuildRight", "LeftSemi", (("x#6L", "lo#16L"),), ""),
        (
            "ShuffledHashJoin [x#6L], [lo#16L], Inner, BuildLeft, (d#8 < e#20)",
            "Inner", (("x#6L", "lo#16L"),), "(d#8 < e#20)",
        ),
        (
            "SortMergeAsOfJoin [s#9], [s#19], [ts#10], [e#20], (ts#10 >= e#20), (ts#10 - e#20), LeftOuter",
            "LeftOuter", (("s#9", "s#19"),), "(ts#10 >= e#20)",
        ),
    ],
)  # fmt: skip
def test_texts_of_joins(text: str, type_: str, keys: tuple[tuple[str, str], ...], condition: str) -> None:
    join = joined(text).join
    assert (join.type, join.keys, join.condition) == (type_, keys, condition)


@pytest.mark.parametrize(
    "plan",
    [
        None,
        [],
        {},
        {"children": 3},
        {"children": [3, None]},
        {"nodeName": ["a"], "metrics": [{"accumulatorId": "x"}, 1]},
    ],
)
def test_plans_of_other_types_have_no_joins(plan: Any) -> None:
    root = read_plan(plan)
    assert root is None or candidates(root, 1) == []
