"""The shipped cases show every operator, every rule, every hint to Spark and both ends of every choice by cost."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from dovetail.golden_plans.approval import labels
from dovetail.golden_plans.case import Case, read_case
from dovetail.golden_plans.planned import plan_case
from dovetail.planner.logical import Logical
from dovetail.planner.physical.base import Physical
from dovetail.planner.physical.key_join import Method
from dovetail.rules.batches import RULES

SHIPPED = Path(__file__).parents[2] / "golden_plans" / "cases"
OPERATOR = re.compile(r"^[-+ │├└─]*(?:subquery \d+: )?(\w+)(?:  |$)", re.MULTILINE)
BASES = {"Alternatives"}  # what is seen are its kinds
TIDYING = {"drop_hints", "keep_nested_loop"}  # the trace does not name them
# What `explain("cost")` says of choices: what was taken somewhere, and what was not.
CHOSEN = (
    "Spark's own join, .* pairs of .* rows: .*",
    "Spark's own join on the equal keys of .* rows: .*",
    r"Spark's own join \(no sizes are known\): .*",
    r"bins of \S+ for .* in \[.*\], left side copied",
    r"bins of \S+ for .* in \[.*\], right side copied",
    r"bins of \S+ for .* between .*: .* candidate pairs",
    r"bins of \S+, \d+ for .* between .*: .* candidate pairs",
    "bins of .*one for all longer intervals for .* between .*",
    "bins of .*, each interval in one bin, for [^:]*",
    "bins of .*, each interval in one bin, for .*: .* candidate pairs",
    "bins of .*, both sides copied: .* candidate pairs",
    "bins of .* × bins of .*: .* candidate pairs",
    "bins of .* on the left and .* on the right for [^:]*",
    "bins of .* on the left and .* on the right for .*: .* candidate pairs",
    r"the first of \d bands, .*",
    ".*, which holds for .* of a sample's pairs",
    r"what covers .* bins, for (about [\d,]+|an unknown number of) points and .* ends",
    "running sums over about .* points and .* ends",
    "keys of .*",
    "pairs, (about .*|an unknown number of pairs) for each point",
    "pairs, since the lengths of intervals are not known",
    "RANGE windows over the source",
    "the join as it is written: .*",
    "windows over .* of the rows",
    r"one sort of (about [\d,]+|an unknown number of) rows",
    r"grouping (about [\d,]+|an unknown number of) rows of the right side",
    "all versions of a key, up to .* pairs",
    "Spark's own join, (up to .*|an unknown number of) pairs",
    "one sort of both sides",
    "subqueries, .* pairs",
    "the rows read once more for each subquery",
    "read the .* rows of .* whole, by shares",
    "ask .* for about .* keys",
)
REJECTED = (
    "bins, which need one more shuffle",
    "keys of .*",
    "Spark's own join, .* pairs of .* rows",
    "Spark's own join on the equal keys of .* rows",
    r"Spark's own join \(force is set: no sizes were asked for\)",
    r"Spark's own join \(no sizes are known\)",
    r"bins of \S+ for .* in \[.*\], left side copied",
    r"bins of \S+ for .* in \[.*\], right side copied",
    "bins of .*one for all longer intervals for .*: .* candidate pairs",
    "bins of .*, each interval in one bin, for .*: .* candidate pairs",
    "bins of .*, both sides copied: .* candidate pairs",
    r"bins of \S+ for .* between .*",
    "bins of .* on the left and .* on the right for .*: .* candidate pairs",
    ".*, which holds for .* of a sample's pairs",
    r"pairs, about .* for each point \(running_sum_matches\)",
    "running sums",
    r"running sums over all points and .* ends \(running_sum_matches\)",
    "RANGE windows over the source",
    "the join as it is written",
    "windows over .* of the rows",
    r"one sort of about [\d,]+ rows",
    r"grouping about [\d,]+ rows of the right side",
    "all versions of a key, (?:up to .*|an unknown number of) pairs",
    "Spark's own join, (up to .*|an unknown number of) pairs",
    "one sort of both sides",
    "subqueries, which compare every pair",
    "the rows read once more for each subquery",
    "read the .* rows of .* whole, by shares",
    "ask .* for .* keys",
)


@cache
def cases() -> list[Case]:
    return [read_case(path) for path in sorted(SHIPPED.rglob("*.plan"))]


@cache
def choices() -> tuple[set[str], set[str]]:
    """What was chosen in the cases, and what was rejected."""
    said = [choice.partition(": ") for case in cases() for choice in plan_case(case).choices]
    return {what for how, _, what in said if how == "chosen"}, {what for how, _, what in said if how == "  rejected"}


def test_every_operator_is_in_a_case() -> None:
    shown = {
        found
        for c in cases()
        for t in ("logical", "rewrites", "plan", "stream")
        for found in OPERATOR.findall(c.sections.get(t, ""))
    }
    assert {*labels(Physical), *labels(Logical)} - shown == BASES
    runs = {found for case in cases() for found in OPERATOR.findall(case.sections["plan"])}
    assert set(labels(Physical)) - runs == {"Epoch", "Build", "HalfJoin", "AsOfHalfJoin", "Arrangement"}  # `stream`


def test_every_rule_fires_in_a_case() -> None:
    fired = {name for case in cases() for name in plan_case(case).rules}
    assert {rule.name for rule in RULES} - fired == TIDYING


@pytest.mark.parametrize("strategy", get_args(get_type_hints(Method)["strategy"]))
def test_every_hint_to_spark_is_in_a_case(strategy: Any) -> None:
    """One that nobody wrote, which the SQL of a case has all the same."""
    assert any(f"{strategy}(" in case.sections.get("sql", "") and strategy not in case.sql for case in cases())


@pytest.mark.parametrize(("ways", "said"), [(CHOSEN, 0), (REJECTED, 1)], ids=["chosen", "rejected"])
def test_every_choice_by_cost_is_in_a_case(ways: Any, said: Any) -> None:
    assert [way for way in ways if not any(re.match(way, choice) for choice in choices()[said])] == []
    assert [choice for choice in sorted(choices()[said]) if not any(re.match(way, choice) for way in ways)] == []
