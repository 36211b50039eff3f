"""The normal form of a random condition lets the same rows through, value by value: NULL, NaN, infinities, zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

from dovetail.planner.conditions.normal_form import normal_form
from dovetail.planner.expr import Scalar
from effort import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOGETHER = 16  # so many conditions are asked for in one statement

CHANGED: list[int] = []

_REALS = ("a.d", "b.d", "b.f", "1.5D", "CAST('NaN' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)", "CAST(NULL AS DOUBLE)")
_WHOLE = ("a.k", "b.k", "1", "(a.k)", "(b.k + 1)")
_TEXTS = ("a.s", "b.s", "'x'")
_SIGNS = ("=", "<>", "!=", "==", "<", "<=", ">", ">=", "<=>")
_TABLE = """
SELECT * FROM VALUES
  (1, 1, CAST('NaN' AS DOUBLE), CAST('NaN' AS FLOAT), 'x', true), (2, 2, -0.0D, CAST(0 AS FLOAT), 'X', false),
  (3, NULL, 0.0D, CAST('Infinity' AS FLOAT), NULL, NULL), (4, 1, CAST('-Infinity' AS DOUBLE), NULL, '', true),
  (5, 1, NULL, CAST(1.5 AS FLOAT), 'x', NULL) AS t(id, k, d, f, s, c)
"""


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> str:
    """A condition over ``a`` and ``b`` in one of many spellings."""
    inner = conditions(depth - 1)
    if not depth or not draw(st.integers(0, 4)):
        operands = draw(st.sampled_from((_REALS, _WHOLE, _TEXTS)))
        x, y, z = (draw(st.sampled_from(operands)) for _ in range(3))
        sign = draw(st.sampled_from(_SIGNS))
        shapes = (
            *(f"{x} {sign} {y}", f"({x}) {sign} ({y})", f"{x} BETWEEN {y} AND {z}", f"{x} NOT BETWEEN {y} AND {z}"),
            *(f"{x} IN ({y}, {z})", f"{x} NOT IN ({y})", f"{x} IS NULL", f"{x} IS NOT NULL", f"({x} {sign} {y})"),
            *(f"{x} < {y} OR {x} = {y}", f"{x} = {y} OR {y} < {x}", f"{x} IS DISTINCT FROM {y}", f"{x} = {y} = a.c"),
            *("a.c", "b.c", "TRUE", "FALSE", "1 = 1", f"(a.k, {x}) = (b.k, {x})", "a.s LIKE 'x%'", "a.s NOT LIKE b.s"),
        )
        return draw(st.sampled_from(shapes))
    c, e = draw(inner), draw(inner)
    joined = (
        *(f"({c})", f"NOT ({c})", f"!({c})", f"NOT NOT ({c})", f"({c}) AND ({e})", f"({c}) OR ({e})"),
        *(f"({c}) AND ({e}) OR ({e}) AND ({c})", f"(({c}) AND ({e})) OR ({c})", f"NOT (({c}) OR ({e}))"),
        *(f"({c}) = TRUE", f"FALSE = ({c})", f"({c}) <=> TRUE", f"({c}) IS TRUE", f"({c}) IS NOT FALSE"),
        *(f"({c}) = ({e})", f"({c}) <> (NOT {e})", f"(({c}) IS NULL) = (b.c IS NULL)", f"(a.c IS NULL) = ({e})"),
        *(f"({c}) IS FALSE", f"({c}) IS NOT TRUE", f"coalesce({c}, FALSE)", f"nvl({c}, TRUE)", f"({c}) AND TRUE"),
        *(f"({c}) OR FALSE", f"if({c}, TRUE, FALSE)", f"CASE WHEN {c} THEN TRUE ELSE FALSE END"),
        *(f"CASE WHEN {c} THEN TRUE END", f"CASE WHEN {c} THEN {e} ELSE FALSE END", f"if({c}, 1, 0) = 1"),
        *(f"CASE WHEN {c} THEN a.c ELSE a.c AND {e} END", f"CASE WHEN a.x IS NULL THEN a.c AND {e} ELSE a.c END"),
        f"a.x IS NULL AND {c} OR a.x IS NOT NULL AND {c} AND ({e})",
    )
    return draw(st.sampled_from(joined))


@pytest.mark.hypothesis
@settings(max_examples=examples(1 / 10))
@given(st.lists(conditions(), min_size=TOGETHER, max_size=TOGETHER))
def test_the_same_rows_pass(session: SparkSession, written: list[str]) -> None:
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW t AS {_TABLE}")
    items, changed = [], 0
    for n, text in enumerate(written):
        condition = (Scalar(text),)
        found = normal_form(condition)
        changed += found is not condition
        said = " AND ".join(f"({c.text})" for c in found) or "TRUE"
        note(f"{n}: {text}\n   {said}")
        items.append(f"count_if(coalesce({text}, FALSE) <> coalesce({said}, FALSE)) AS c{n}")
    event(f"{changed * 10 // TOGETHER * 10} % changed")
    CHANGED.append(changed)
    (row,) = session.sql(f"SELECT {', '.join(items)} FROM t a CROSS JOIN t b").collect()
    assert not {n: written[n] for n, wrong in enumerate(row) if wrong}


def test_conditions_had_another_form() -> None:
    assert not CHANGED or sum(CHANGED) > len(CHANGED)
