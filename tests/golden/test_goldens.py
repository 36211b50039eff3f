"""The shipped cases as a whole; each of them is a test of its own, collected by the plugin."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from dovetail.golden_plans.approval import approved_as_written
from dovetail.golden_plans.case import Case, read_case
from dovetail.golden_plans.planned import plan_case
from dovetail.golden_plans.summary import NAME, summary
from dovetail.optimizer.planning.validation import has_same_tokens

SHIPPED = Path(__file__).parents[2] / "golden_plans" / "cases"


@cache
def shipped(folder: str = "") -> list[Case]:
    return [read_case(path) for path in sorted((SHIPPED / folder).rglob("*.plan"))]


def test_the_summary_is_current() -> None:
    assert (SHIPPED / NAME).read_text(encoding="utf-8") == summary(SHIPPED)


def test_a_third_of_the_cases_are_left_to_spark() -> None:
    cases = shipped()
    assert len(cases) >= 70
    assert 3 * sum(not plan_case(case).rewritten for case in cases) > len(cases)


def test_a_sentence_says_why_each_case_is_there() -> None:
    silent = [case.name for case in shipped() if not re.match(r"-- [`A-Z0-9].*[.?!]\n", case.above)]
    assert silent == []


def test_lines_are_short() -> None:
    """But for SQL, which has the lines of the statement, choices, one to a line, and conditions of streams."""
    whole = ("sql", "measured", "choices", "stream")
    texts = [(case.name, text) for case in shipped() for title, text in case.sections.items() if title not in whole]
    assert [name for name, text in texts for line in text.split("\n") if len(line) > 120] == []


def test_what_is_rewritten_shows_its_sql() -> None:
    assert [c.name for c in shipped() if ("sql" in c.sections) == approved_as_written(c)] == []


def test_what_is_carried_reads_back() -> None:
    plans = [(case, plan_case(case).logical) for case in shipped()]
    assert [case.name for case, logical in plans if logical and not has_same_tokens(logical, case.sql)] == []


def test_what_is_refused_runs_as_written() -> None:
    assert [case.name for case in shipped("refused") if plan_case(case).sql() != case.sql] == []


def test_what_is_only_carried_is_not_touched_by_any_rule() -> None:
    assert [case.name for case in shipped("carry") if plan_case(case).rules] == []


def test_everything_else_is_rewritten_or_says_that_it_is_not() -> None:
    rest = [case for case in shipped() if case.path.parent.name not in ("carry", "refused")]
    silent = [c for c in rest if not any(h.key in ("error", "refused", "must not use") for h in c.headers)]
    assert [case.name for case in silent if not plan_case(case).rewritten] == []
