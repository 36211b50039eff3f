"""Every case once more, as though all of its tables were streams."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from dovetail.golden_plans.case import read_case
from dovetail.golden_plans.planned import catalog_of, plan_case
from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.statement import plan_sql

SHIPPED = Path(__file__).parents[2] / "golden_plans" / "cases"


def test_a_rule_leaves_streams_alone_unless_it_says_otherwise() -> None:
    seen: Counter[str] = Counter()
    for path in sorted(SHIPPED.rglob("*.plan")):
        case = read_case(path)
        if not (plain := plan_case(case)).rewritten:
            continue
        catalog = catalog_of(case)
        tables = tuple(replace(t, stream=not t.view) for t in catalog.tables)
        plan = plan_sql(case.sql, replace(catalog, tables=tables), Options(force=True, strict=True))
        assert "lengths measured" not in plan.explain(), case.name
        if plain.required:
            seen["asks for tables as of a time"] += 1
            continue
        streams = replace(catalog, tables=tables).streams(case.sql)
        refused = {step.rule.name for step in plan.trace.steps if step.rule.refused(streams)}
        assert not plan.rewritten or (streams <= 1 and not refused), case.name
        reasons = [d.reason for d in plan.declined if d.reason.startswith("the statement reads")]
        seen["rewritten" if plan.rewritten else "with the reason" if reasons else "left as written"] += 1
    assert seen["with the reason"] > 100
