"""What Dovetail reads from the text of an analyzed plan on Spark Connect."""

from __future__ import annotations

import pytest

from dovetail.executor.catalog.repeatable import hide_exact_sums, parse_analyzed_plan, parse_nonrepeatable_reason

EXPLAINED = """== Parsed Logical Plan ==
'Project [*]

== Analyzed Logical Plan ==
k: int, n: bigint
Project [k#1, n#2L]
+- LocalRelation [k#1, n#2L]

== Optimized Logical Plan ==
LocalRelation [k#1, n#2L]

== Physical Plan ==
LocalTableScan [k#1, n#2L]
"""


def test_the_analyzed_plan_stands_between_its_titles() -> None:
    assert parse_analyzed_plan(EXPLAINED) == "Project [k#1, n#2L]\n+- LocalRelation [k#1, n#2L]\n"


@pytest.mark.parametrize("title", ["== Analyzed Logical Plan ==\n", "\n== Optimized Logical Plan ==\n"])
def test_a_plan_that_holds_a_title_has_no_certain_end(title: str) -> None:
    assert parse_analyzed_plan(EXPLAINED.replace("[*]", f"['{title}']")) is None
    assert parse_analyzed_plan(EXPLAINED.replace(title, "")) is None


@pytest.mark.parametrize(
    "items",
    [
        "sum(n#2L) AS s#3L",
        "sum(n#2L) AS sum(n)#3L",
        "sum(k#1) AS sum(k)#3L",
        "sum((k#1 + abs(k#1))) AS s#3L",
        "avg(n#2L) AS avg(n)#3",
        "try_sum(cast(d#2 as decimal(8,2))) AS s#3",
        "sum(k#1) AS a#3L, avg(cast(k#1 as int)) AS b#4, max(d#2) AS max(d)#5",
    ],
)
def test_sums_of_integers_and_decimals_are_exact(items: str) -> None:
    assert parse_nonrepeatable_reason(hide_exact_sums(f"Aggregate [k#1], [k#1, {items}]")) is None


@pytest.mark.parametrize(
    "items",
    [
        "sum(d#2) AS s#3",
        "sum(d#2) AS sum(d)#3",
        "avg(k#1) AS a#3",
        "avg(d#2) AS a#3, sum(n#2L) AS s#4L",
        "sum(n#2L) AS s#4L, avg(d#2) AS a#3",
        "sum(cast(k#1 as double)) AS s#3",
        "cast(sum(d#2) as bigint) AS s#3L",
        "(sum(d#2) > 1.0) AS s#3, n#2L",
        "sum(n#2L#7) AS s#3",
        "first(n#2L, false) AS f#3L",
        "sum(d#2",
    ],
)
def test_other_sums_may_not_be(items: str) -> None:
    assert parse_nonrepeatable_reason(hide_exact_sums(f"Aggregate [k#1], [k#1, {items}]"))


@pytest.mark.parametrize(
    ("type_", "exact"), [("decimal(10,2)", True), ("int", True), ("double", False), ("array<int>", False)]
)
def test_a_column_that_is_cast_below_has_its_type(type_: str, exact: bool) -> None:
    rows = f"Project [cast(c#1 as {type_}) AS v#7, c#1 AS k#8]\n   +- LocalRelation [c#1]"
    plan = f"Aggregate [k#8], [k#8, sum(v#7) AS s#9, avg(v#7) AS avg(v)#10]\n+- {rows}"
    assert (parse_nonrepeatable_reason(hide_exact_sums(plan)) is None) == exact
    assert parse_nonrepeatable_reason(hide_exact_sums(plan.replace("v#7)", "k#8)")))


@pytest.mark.parametrize("exact", [False, True])
def test_a_line_break_in_a_literal_hides_no_aggregate(exact: bool) -> None:
    plan = "Aggregate [a\nProject #1], [a\nProject AS a#3, {call} AS f#4]\n+- LocalRelation [d#2]"
    assert parse_nonrepeatable_reason(plan.format(call="first(d#2, false)"), exact=exact)
    assert bool(parse_nonrepeatable_reason(plan.format(call="sum(d#2)"), exact=exact)) is not exact
    assert parse_nonrepeatable_reason(plan.format(call="max(d#2)"), exact=exact) is None


def test_columns_and_functions_named_alike_are_no_aggregates() -> None:
    plan = "Project [sum(d)#3, last_day(d#2) AS l#5, variant_get(v#4, $.a, IntegerType) AS x#6]\n+- Range (0, 1)"
    assert parse_nonrepeatable_reason(plan) is None


@pytest.mark.parametrize(("generator", "repeatable"), [("explode(ns#3)", True), ("MyRows(ns#3)#9", False)])
def test_generators_of_spark_return_the_same_rows(generator: str, repeatable: bool) -> None:
    plan = f"Project [k#1, e#4]\n+- Generate {generator}, false, [e#4]\n   +- Range (0, 1)"
    assert (parse_nonrepeatable_reason(plan) is None) == repeatable
