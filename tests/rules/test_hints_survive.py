"""Hints survive every rule that rebuilds a join: half of FLIP-204 is about rules that lost them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from dovetail.golden_plans.approval import approved_as_written
from dovetail.golden_plans.case import Case, read_case
from dovetail.golden_plans.planned import catalog_of, plan_case
from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.hints.blocks import read_hints
from dovetail.planner.logical import BandJoin, Project
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from dovetail.planner.physical.lookup_join import LookupJoin
from dovetail.planner.sql.lookup_views import lookups_of
from dovetail.planner.tree import Node, unwrap
from dovetail.rules.batches import RULES
from dovetail.rules.query.hinted import looks_through

ROOT = Path(__file__).parents[2] / "golden_plans"
AT = "FOR SYSTEM_TIME AS OF PROCTIME() AS"
BASIC = ("lookup_join", "lower_lookup_join", "lookup_hints")


def unhinted() -> list[Case]:
    """The golden plans with lookups whose SQL begins with SELECT and has no hint."""
    cases = [read_case(path) for path in sorted((ROOT / "cases" / "lookup").glob("*.plan"))]
    return [c for c in cases if c.sql.startswith("SELECT") and "/*+" not in c.sql and not approved_as_written(c)]


def outermost(plan: Plan) -> list[LookupJoin]:
    """The lookups that a hint of the outermost SELECT can name."""

    def visit(node: Node) -> list[LookupJoin]:
        if not looks_through(node) and not isinstance(node, LookupJoin):
            return []
        below = [j for child in node.children for j in visit(child)]
        return [*below, node] if isinstance(node, LookupJoin) else below

    project = unwrap(plan.physical) if plan.physical else None
    assert isinstance(project, Project)
    return visit(project.child)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in unhinted()])
@pytest.mark.parametrize("force", [False, True])
def test_a_hint_reaches_its_lookup_through_all_rules(case: Case, force: bool) -> None:
    catalog = catalog_of(case)
    aliases = [j.scan.alias for j in outermost(plan_case(case))]
    if not aliases:
        pytest.skip("its lookups stand in subqueries")
    options = ", ".join(f"LOOKUP('table'='{a}', 'shuffle'='true', 'batch'='7', 'cache-size'='9')" for a in aliases)
    hinted = f"SELECT /*+ {options} */" + case.sql.removeprefix("SELECT")
    plan = plan_sql(hinted, catalog, Options(strict=True, force=force))
    assert plan.error is None
    assert [w.reason for w in plan.warnings] == []
    assert len(outermost(plan)) == len(aliases)
    for join in outermost(plan):
        assert (join.spec.shuffle, join.spec.batch, join.spec.cache_size) == (True, 7, 9)
    assert "LOOKUP" not in plan.sql()


@pytest.mark.parametrize("off", [None, *(r.name for r in RULES if r.name not in BASIC)])
def test_every_hint_of_a_select_with_every_rule_switched_off(off: str | None) -> None:
    """A lookup, a band and a regular join in one SELECT: each hint goes to its own."""
    text = (
        "SELECT /*+ SHUFFLE_HASH('c'), MERGE(p), RANGE_JOIN(e, 60), BROADCAST(e) */ o.order_id, c.country, p.amount\n"
        f"FROM Orders o JOIN Customers {AT} c ON o.customer_id = c.id\n"
        "JOIN Payments p ON p.order_id = o.order_id\n"
        "JOIN Payments e ON o.order_id BETWEEN e.order_id - 5 AND e.order_id + 5"
    )
    options = Options(strict=True, force=True, disabled_rules=(off,) if off else ())
    plan = plan_sql(text, read_catalog(ROOT / "catalogs" / "lookups.toml"), options)
    assert plan.error is None
    (join,) = lookups_of(plan.physical)
    assert join.spec.shuffle
    assert plan.physical is not None
    (project,) = (p for n in plan.physical.walk() if isinstance(p := unwrap(n), Project))
    left = {h.text for h in read_hints(project.hint)}
    assert {"MERGE(p)", "BROADCAST(e)"} <= left
    if off != "drop_hints":
        assert left == {"MERGE(p)", "BROADCAST(e)"}
    bands = [n for n in plan.optimized.walk() if isinstance(n, BandJoin)] if plan.optimized else []
    if off not in ("band_join", "join_hints"):
        assert [b.bin_width for b in bands] == [60]
        assert "BROADCAST(e)" in {h.hint.text for b in bands for h in b.hints}


def test_hints_set_fields_that_a_lookup_has() -> None:
    from dovetail.planner.hints.lookup import _OPTIONS
    from dovetail.planner.logical.lookup_spec import LookupSpec

    assert {field for field, _, _ in _OPTIONS.values() if field} <= {f.name for f in fields(LookupSpec)}
