"""Keys and conditions of any form: what is kept for a join of streams is all that plain Spark joins.

What is kept is a condition that is put together from those of the query, so each of these has to hold together in it.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dovetail import Optimizer
from sessions import for_few_rows
from shares import Share, at_least
from stream_feeds import FEW

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

share = at_least(0.8)

SCHEMA = "id INT, k INT, w STRING, p BOOLEAN, q BOOLEAN"
LEAVES = {
    "BOOLEAN": (
        "{0}.p",
        "{0}.q",
        "{0}.k > 1",
        "{0}.w LIKE 'a%'",
        "{0}.k BETWEEN 0 AND 2",
        "{0}.k IN (0, 2)",
        "{0}.w IS NULL",
    ),
    "INT": ("{0}.id", "{0}.k", "2", "length({0}.w)"),
    "STRING": ("{0}.w", "'b'", "CAST({0}.k AS STRING)"),
}
MADE = {
    "BOOLEAN": (
        *("NOT ({a})", "({a}) AND ({b})", "({a}) OR ({b})", "({a}) <=> ({b})", "({a}) = ({b})", "({a}) IS NULL"),
        *("({a}) IS NOT NULL", "coalesce({a}, {b})", "NOT {a}", "{a} AND NOT {b}", "if({a}, {b}, {0}.p)"),
    ),
    "INT": (
        *("({a}) + ({b})", "({a}) - ({b})", "-({a})", "({a}) % 3", "({a}) & ({b})", "({a}) | ({b})", "({a}) ^ ({b})"),
        *("coalesce({a}, {b})", "CASE WHEN {0}.p THEN {a} ELSE {b} END", "if({0}.q AND {0}.p, {a}, {b})", "~({a})"),
    ),
    "STRING": (
        "({a}) || ({b})",
        "upper({a})",
        "concat({a}, {b})",
        "CASE ({a}) WHEN 'a' THEN {b} END",
        "substr({a}, 1, 1)",
    ),
}


@st.composite
def made(draw: st.DrawFn, type_: str, side: str, depth: int = 2) -> str:
    """An expression of a type over one side."""
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from(LEAVES[type_])).format(side)
    a, b = (draw(made(type_, side, depth - 1)) for _ in range(2))
    return draw(st.sampled_from(MADE[type_])).format(side, a=a, b=b)


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A join by two keys at most, which may have a condition on either side."""
    on = []
    for _ in range(draw(st.sampled_from((1, 1, 2)))):
        type_ = draw(st.sampled_from(("BOOLEAN", "BOOLEAN", "INT", "STRING")))
        sign = draw(st.sampled_from(("=", "=", "<=>")))
        on.append(f"({draw(made(type_, 'a'))}) {sign} ({draw(made(type_, 'b'))})")
    sides = draw(st.sampled_from(("", "a", "b", "ab")))
    where = " AND ".join(f"({draw(made('BOOLEAN', side))})" for side in sides)
    return f"SELECT a.id, b.id AS bid FROM s a JOIN t b ON {' AND '.join(on)}{f' WHERE {where}' if where else ''}"


@pytest.mark.hypothesis
@FEW
@given(found=st.lists(queries(), min_size=6, max_size=6), seed=st.integers(0, 9))
@example(
    found=[
        "SELECT a.id, b.id AS bid FROM s a JOIN t b ON (a.p AND a.q) = b.p",
        "SELECT a.id, b.id AS bid FROM s a JOIN t b ON (NOT a.p) = (b.p OR b.q) WHERE NOT a.q",
        "SELECT a.id, b.id AS bid FROM s a JOIN t b ON (a.k > 1) = b.p AND (a.p IS NULL) = b.q",
    ],
    seed=1,
)
def test_all_that_spark_joins(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, share: Share, found: list[str], seed: int
) -> None:
    opt, folder, random = Optimizer(for_few_rows(spark)), tmp_path_factory.mktemp("keys"), Random(seed)
    opt.session.conf.set("spark.sql.ansi.enabled", "true")
    for name in "st":
        arrive(opt.session, folder / name, name, random)
    plain = [query.replace("FROM s", "FROM s_table").replace("JOIN t", "JOIN t_table") for query in found]
    expected = {f"v{n}": rows(opt.session, query) for n, query in enumerate(plain)}
    plans = {f"v{n}": opt.stream_plan(query, state_modules=True) for n, query in enumerate(found)}
    taken = {name: plan.text for name, plan in plans.items() if share.count(plan.join is not None)}
    if taken:
        opt.materialize_all(taken, state=folder / "state")
    for name, query in taken.items():
        assert rows(opt.session, f"SELECT * FROM {name}") == expected[name], query


def arrive(session: SparkSession, folder: Path, name: str, random: Random) -> None:
    """A stream with each pair of truth values, and a table of the same rows."""
    folder.mkdir()
    found = [
        {"id": n, "k": random.choice((None, 0, 1, 2)), "w": random.choice((None, "", "a", "b", "ab")), "p": p, "q": q}
        for n, (p, q) in enumerate(product((None, True, False), repeat=2))
    ]
    (folder / "rows.json").write_text("\n".join(map(json.dumps, found)))
    session.readStream.schema(SCHEMA).json(str(folder)).createOrReplaceTempView(name)
    session.read.schema(SCHEMA).json(str(folder)).createOrReplaceTempView(f"{name}_table")


def rows(session: SparkSession, query: str) -> Counter[tuple[int, ...]]:
    return Counter(map(tuple, session.sql(query).collect()))
