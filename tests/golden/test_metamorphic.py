"""A golden case in other words gets the operators that it has, or a reason why not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

from dovetail.golden_plans.case import Case, read_case
from dovetail.golden_plans.planned import catalog_of, options_of, plan_case, stream_plan
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.errors import Unsupported
from dovetail.planner.physical.base import Physical
from effort import SEED, fuzzing
from metamorphic import variants

CASES = Path(__file__).parents[2] / "golden_plans" / "cases"
FOLDERS = sorted(p.name for p in CASES.iterdir() if p.is_dir() and p.name not in ("carry", "refused"))
WINDOWS = {"SelfWindow": "BandWindow"}  # a count of rows and EXISTS are either window; neither has a join
EVERY = 1 if fuzzing() else 24  # of so many variants one is planned, another one for each seed


@cache
def _cases(folder: str) -> list[Case]:
    """The cases with other operators than Spark's own; not joins of streams, whose words no rule makes simpler."""
    cases = [read_case(path) for path in sorted((CASES / folder).rglob("*.plan"))]
    cases = [c for c in cases if not c.values("error") and plan_case(c).rewritten]
    return [c for c in cases if not stream_plan(c, catalog_of(c))]


def _operators(plan: Plan) -> list[str]:
    assert plan.physical is not None
    return (
        sorted(WINDOWS.get(n.label, n.label) for n in plan.physical.walk() if isinstance(n, Physical) and n.rewritten)
        if plan.rewritten
        else []
    )


@pytest.mark.hypothesis
@pytest.mark.parametrize("folder", FOLDERS)
def test_other_words_get_the_same_operators(folder: str, record_property: Callable[[str, object], None]) -> None:
    counts: Counter[str] = Counter()
    silent = []
    for case in _cases(folder):
        plan = plan_case(case)
        known = {d.reason for d in plan.declined}
        for name, text in _variants(case):
            if (crc32(f"{case.name} {name}".encode()) - SEED) % EVERY:
                continue
            other = plan_sql(text, catalog_of(case), options_of(case))
            if other.rewritten and _operators(other) == _operators(plan):
                counts["same operators"] += 1
            elif other.error or any(d.reason not in known for d in other.declined):
                counts["explained"] += 1
            else:
                counts["silent"] += 1
                silent.append(f"{case.name}, {name}: {_operators(plan)}, now {_operators(other)}\n{text}")
    print(f"{folder}: {dict(counts)}")
    record_property("metamorphic", dict(counts))
    assert not silent, "\n".join(silent)
    usual = counts.total() / 20
    assert counts["explained"] <= usual + 4 * math.sqrt(usual) + 1  # a sample may have some more of them by chance


def _variants(case: Case) -> list[tuple[str, str]]:
    try:
        return list(variants(case.sql))
    except Unsupported:
        return []
