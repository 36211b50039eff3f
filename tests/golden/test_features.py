"""What rules need of a plan: without these conditions, plans and reasons are the same."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dovetail.golden_plans.case import read_case
from dovetail.golden_plans.planned import catalog_of, options_of
from dovetail.optimizer.planning.driver import Driver
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.sql.from_sql import from_sql
from dovetail.rules.batches import BATCHES
from dovetail.rules.rule import Rule, features

SHIPPED = Path(__file__).parents[2] / "golden_plans" / "cases"
WORDS = {"aggregate", "as_of", "hint", "self_join", "semi_join", "star", "subquery", "using", "window"}
EVERY = 7  # so many cases, one is planned


def without_needs(one: Rule) -> Rule:
    return replace(one, needs=frozenset())


def test_no_rule_misses_a_plan_for_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(path: Path) -> Any:
        case = read_case(path)
        plan = plan_sql(case.sql, catalog_of(case), options_of(case))
        steps = [(step.rule.name, step.before, step.after) for step in plan.trace.steps]
        return plan.rewriting, steps, plan.declined, plan.warnings

    paths = sorted(SHIPPED.rglob("*.plan"))[::EVERY]
    found = list(map(planned, paths))
    batches = tuple(replace(batch, rules=tuple(map(without_needs, batch.rules))) for batch in BATCHES)
    monkeypatch.setattr("dovetail.optimizer.planning.statement.Driver", partial(Driver, batches=batches))
    for path, known in zip(paths, found, strict=True):
        assert planned(path) == known, path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM t", set()),
        ("SELECT a FROM t JOIN u ON t.a = u.a WHERE t.over_time > 1", set()),
        ("SELECT max(a) FROM t", {"aggregate"}),
        ("SELECT a FROM t GROUP BY a", {"aggregate"}),
        ("SELECT * FROM o JOIN c FOR SYSTEM_TIME AS OF PROCTIME() ON o.k = c.k", {"as_of", "star"}),
        ("SELECT /*+ BROADCAST(t) */ a FROM t JOIN u USING (a)", {"hint", "using"}),
        ("SELECT a FROM t NATURAL JOIN u", {"using"}),
        ("SELECT x.a FROM t x JOIN T y ON x.a = y.b", {"self_join"}),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM t)", {"self_join", "subquery"}),
        ("SELECT a FROM t LEFT ANTI JOIN u ON t.a < u.a", {"semi_join"}),
        ("SELECT t.a FROM t, LATERAL (SELECT u.b FROM u WHERE u.b < t.a) v", {"subquery"}),
        ("SELECT t.a FROM t JOIN (SELECT b FROM u) v ON t.a < v.b", set()),
        ("SELECT a, lag(b) over (ORDER BY a) FROM t", {"aggregate", "window"}),
    ],
)
def test_features_of_a_statement(text: str, expected: set[str]) -> None:
    plan, _ = from_sql(text)
    assert features(plan) & WORDS == expected
