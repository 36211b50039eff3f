"""Golden cases in other words, run: the rows of the case as it is written, by plain Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from dovetail.golden_plans.case import Case, read_case
from dovetail.golden_plans.planned import catalog_of, options_of, plan_case
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.errors import Unsupported
from effort import SEED, fuzzing
from execution import execution_of
from golden_sessions import golden_sessions
from metamorphic import variants

CASES = Path(__file__).parents[2] / "golden_plans" / "cases"
FOLDERS = ("band", "extreme", "groups", "normalize", "pairs", "self", "subqueries", "totals")
EVERY = 3 if fuzzing() else 150
# What may be looked at in another order in plain Spark, too: these raise there.
RAISES = ("operands of AND commuted",)


@pytest.fixture(scope="module")
def session_for(spark: SparkSession) -> Any:
    """A session for each catalog file, with its settings, and its tables as views."""
    yield from golden_sessions(spark)


def _chosen() -> list[tuple[Case, str, str]]:
    """A share of all variants, others for each seed."""
    found = []
    for path in sorted(path for folder in FOLDERS for path in (CASES / folder).glob("*.plan")):
        case = read_case(path)
        if case.values("error") or not plan_case(case).rewritten or "INSERT" in case.sql or ":" in case.sql:
            continue
        try:
            found += [(case, name, text) for name, text in variants(case.sql) if name not in RAISES]
        except Unsupported:
            continue
    found.sort(key=lambda one: crc32(f"{SEED} {one[2]} {one[1]}".encode()))
    return found[: len(found) // EVERY]


def _rows(session: Any, text: str) -> Counter[tuple[Any, ...]]:
    frame = session.sql(text)
    named = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))
    return Counter(map(tuple, named.selectExpr(*(f"CAST({c} AS STRING)" for c in named.columns)).collect()))


@pytest.mark.hypothesis
def test_other_words_have_the_same_rows(session_for: Any) -> None:
    chosen, wrong = _chosen(), []
    assert len(chosen) > 20
    for case, name, text in chosen:
        session = session_for(case, execution_of(text))
        plan = plan_sql(text, catalog_of(case), options_of(case))
        if _rows(session, plan.sql()) != _rows(session, case.sql):
            wrong.append(f"{case.name}, {name}\n{text}\n{plan.sql()}")
    print(f"{len(chosen)} variants")
    assert not wrong, "\n\n".join(wrong)
