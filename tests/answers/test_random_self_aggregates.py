"""Aggregates of a block's own rows, made windows, return what plain Spark returns for them, on random tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from comparing import assert_same, few_rows
from dovetail import Optimizer, Options
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.1)

TYPES = ("INT", "BIGINT", "DOUBLE", "DECIMAL(8,2)", "STRING", "DATE")
NUMBERS = TYPES[:4]
OPTIONS = (Options(force=True, strict=True), Options(strict=True, measure_lengths=False))


@st.composite
def tables(draw: st.DrawFn) -> dict[str, str]:
    """``t(k, s, v)`` and ``u(k, w)`` as SELECTs, with duplicates, NULLs anywhere, and NaN among the doubles."""
    number = st.sampled_from(["0", "1", "2", "2", "3", "NULL"])
    key = st.sampled_from(["1", "1", "2", "3", "3", "NULL"])
    order, value = draw(st.sampled_from(TYPES)), draw(st.sampled_from(NUMBERS))
    keys = draw(st.sampled_from(("INT", "BIGINT", "STRING", "DOUBLE", "DECIMAL(4,1)")))

    def cast(name: str, type_: str) -> str:
        said = {"DATE": f"DATE'2020-01-01' + CAST({name} AS INT)"}.get(type_, f"CAST({name} AS {type_})")
        if type_ == "DOUBLE" and name == "k":
            said = f"CASE k WHEN 1 THEN -0.0D WHEN 2 THEN 0.0D ELSE {said} END"
        elif type_ == "DOUBLE":
            said = f"CASE {name} WHEN 0 THEN CAST('NaN' AS DOUBLE) WHEN 1 THEN -0.0D ELSE {said} END"
        return f"{said} AS {name}"

    def table(**columns: str) -> str:
        of = [key if name == "k" else number for name in columns]
        rows = draw(st.lists(st.tuples(*of), min_size=4, max_size=14))
        rows += rows[: draw(st.integers(0, 2))]
        values = ", ".join(f"({', '.join(r)})" for r in rows)
        empty = draw(st.sampled_from([""] * 12 + [" WHERE false"]))
        items = ", ".join(cast(name, type_) for name, type_ in columns.items())
        return f"SELECT {items} FROM VALUES {values} AS d({', '.join(columns)}){empty}"

    return {"t": table(k=keys, s=order, v=value), "u": table(k=keys, w=order)}


@st.composite
def subqueries(draw: st.DrawFn) -> str:
    """A query with a subquery or two over its own rows; near misses among them."""

    def pick(*choices: str) -> str:
        return draw(st.sampled_from(choices))

    with_ = "WITH c AS (SELECT k, s, max(v) AS v FROM t GROUP BY k, s)\n"
    from_, inner = draw(
        st.sampled_from(
            [
                ("t x", "t y"),
                ("t x", "t y"),
                ("t x", "t"),
                ("t x", "(SELECT k, s, v FROM t WHERE s IS NOT NULL) y"),
                ("(SELECT * FROM t WHERE v IS NOT NULL) x", "(SELECT * FROM t WHERE v IS NOT NULL) y"),
                ("(SELECT * FROM t WHERE v IS NOT NULL) x", "t y"),
                ("c x", "c y"),
                ("t x JOIN u ON u.k = x.k", "t y"),
                ("t x JOIN u ON u.k = x.k AND w IS NOT NULL", "t y"),
                ("u JOIN t AS x ON x.s = u.w", "t y"),
                ("u, t x", "t y"),
                ("t x LEFT JOIN u ON u.k = x.k", "t y"),
                ("t x JOIN u ON u.k = x.k", "t y JOIN u z ON z.k = y.k"),
                ("t x JOIN u ON u.k = x.k AND w IS NOT NULL", "t y, u AS z"),
                ("t x JOIN t x2 ON x2.k = x.k", "t y"),
                ("t x JOIN t x2 ON x2.s = x.s", "t y JOIN t y2 ON y.s = y2.s"),
            ]
        )
    )
    own = "t" if inner == "t" else "y"
    third = "u" if "u" in from_.replace(",", "").split() and "LEFT" not in from_ else "x"
    keys = [f"{own}.k = x.k"] * 5 + [f"x.k = {own}.k", f"{own}.k = {third}.k", f"{own}.s = x.s"]
    keys += [f"{own}.k = x.k AND {own}.s = x.s", f"{own}.k <=> x.k", f"{own}.k > x.k", f"({own}.k = x.k)"]
    if "z" in inner.split():
        keys = [f"{key} AND z.k = {own}.k" for key in keys]
    filters = [""] * 3 + [f" AND {own}.s IS NOT NULL", f" AND {own}.v = 2", f" AND ({own}.v = 2 OR {own}.s IS NULL)"]

    def where() -> str:
        return pick(*keys) + pick(*filters)

    def value() -> str:
        number = pick("v", f"{own}.v")
        call = pick(
            *(f"{f}({number})" for f in ("min", "max", "sum", "avg", "count")),
            "count(*)",
            f"2 * max({number})",
            f"max({number}) - min({number})",
            f"coalesce(min({number}), 1)",
            f"max({number}) AS m",
            f"count(DISTINCT {number})",
            f"max({number}) FILTER (WHERE {own}.s IS NOT NULL)",
            "max(x.v)",
        )
        return f"(SELECT {call} FROM {inner} WHERE {where()})"

    def exists() -> str:
        other = pick(
            *(f" AND {own}.s {op} x.s" for op in ("<>", "<>", "<", "<=", ">", ">=")), f" AND x.s <> {own}.s", ""
        )
        also = pick(*[""] * 6, f" AND {own}.v > x.v")
        return f"EXISTS (SELECT {pick('1', '*')} FROM {inner} WHERE {where()}{other}{also})"

    def test() -> str:
        return pick(
            f"x.v > {value()}",
            f"x.v = {value()}",
            f"{value()} <= x.v",
            f"x.v * 2 > 1 + {value()}",
            f"x.v <> {value()} OR x.k = x.k",
            f"{value()} IS NULL",
            f"NOT x.v < {value()}",
            f"coalesce({value()}, 3) < x.v",
            exists(),
            exists(),
            f"NOT {exists()}",
            f"NOT {exists()}",
            f"({exists()} OR x.v IS NULL)",
        )

    conjuncts = draw(st.lists(st.builds(test), min_size=1, max_size=2)) if draw(st.booleans()) else [test()]
    conjuncts += draw(
        st.lists(st.sampled_from(["x.v IS NOT NULL", "x.k IS NOT NULL", "x.v = 2", "x.s = x.s"]), max_size=1)
    )
    if from_ == "u, t x":
        conjuncts += ["x.k = u.k", pick("w IS NULL", "u.w = u.w")]
    if "x2" in from_:
        conjuncts += ["x2.v IS NOT NULL"]
    items = pick("x.k, x.s, x.v", "*", "x.*", "count(*), max(x.v)", "x.k, count(*) AS n", "x.k, M")
    group = " GROUP BY x.k" if items == "x.k, count(*) AS n" else ""
    items = items.replace("M", f"{value()} AS m")
    if draw(st.integers(0, 4)) == 0:
        where_ = " AND ".join(conjuncts[1:] or ["true"])
    else:
        where_ = " AND ".join(c if " OR " not in c else f"({c})" for c in conjuncts)
    return f"{with_ if 'c x' in from_ else ''}SELECT {items}\nFROM {from_}\nWHERE {where_}{group}"


def semi_join(pick: Callable[..., str], kind: str, op: str) -> str:
    """A query that keeps the rows with another row of their key, or without one."""
    items, before = pick("x.k, x.s, x.v", "*", "x.*", "count(*)"), pick("", "", " JOIN u ON u.k = x.k")
    on = pick("x.k = y.k", "y.k = x.k", "x.k = y.k AND y.v = 2", "x.k = y.k AND v IS NOT NULL", "x.k <=> y.k")
    other = pick(f" AND x.s {op} y.s", f" AND y.s {op} x.s", f" AND x.v {op} y.v", "")
    right = pick("t y", "t y", "(SELECT k, s, v FROM t WHERE v IS NOT NULL) y", "(SELECT k, s, v AS v2, v FROM t) y")
    also = pick("", "", "", " LEFT ANTI JOIN t z ON z.k = x.k AND z.s < x.s", " LEFT SEMI JOIN u z ON z.k = x.k")
    after, more = pick("", "", " JOIN u u2 ON u2.k = x.k"), pick("", " WHERE x.v IS NOT NULL", " WHERE x.v = 2")
    return f"SELECT {items} FROM t x{before} LEFT {kind} JOIN {right} ON {on}{other}{also}{after}{more}"


def in_groups(pick: Callable[..., str]) -> str:
    """A query that keeps the rows whose values are among those of the groups; near misses too."""
    keys, filter_ = pick("k", "k", "s", "k, s"), pick("", "", " WHERE v IS NOT NULL", " WHERE t.s IS NULL OR v = 2")
    values = [f"x.{key}" for key in pick(keys, keys, keys, "k").split(", ")]
    value, call = pick(
        "x.v, max(v)", "v, min(t.v)", "x.v, sum(v)", "x.s, max(s)", "x.v + 1, max(v) + 1", "2, count(*)", "x.v, avg(v)"
    ).split(", ")
    groups = (
        f"SELECT {keys}, {call} FROM t{filter_} GROUP BY {pick(keys, 'ALL')}{pick('', '', '', ' HAVING max(v) > 1')}"
    )
    test = f"({', '.join([*values, value])}) {pick('IN', 'IN', 'IN', 'NOT IN')} ({groups})"
    items, more = pick("x.k, x.s, x.v", "*", "x.*", "count(*)"), pick("", "", " AND x.v IS NOT NULL", " OR x.v = 2")
    return f"SELECT {items} FROM t {pick('x', 'x', 'x JOIN u ON u.k = x.k')} WHERE {test}{more}"


@st.composite
def joins(draw: st.DrawFn) -> str:
    """A query that joins its rows with their groups, or keeps those with or without a partner; near misses too."""

    def pick(*choices: str) -> str:
        return draw(st.sampled_from(choices))

    if draw(st.booleans()):
        op, column = pick("<", "<=", ">", ">=", "<>"), pick("k", "s", "k", "v")
        more = pick("", "", " AND x.v IS NOT NULL", " AND x.v > 0")
        if kind := pick("", "SEMI", "SEMI", "ANTI"):
            return semi_join(pick, kind, op)
        items = pick("x.k, x.s, x.v", "x.*", "*", "count(*)", "x.k, y.v", "x.* EXCEPT (s), 1 AS one")
        return f"SELECT {items} FROM t x LEFT JOIN t y ON x.k = y.k AND x.s {op} y.s WHERE y.{column} IS NULL{more}"
    if draw(st.booleans()):
        return in_groups(pick)
    keys, filter_ = pick("k", "k", "s", "k, s"), pick("", "", "", " WHERE v IS NOT NULL")
    on = " AND ".join(f"x.{key} = y.{key}" for key in pick(keys, keys, "k").split(", "))
    value = pick("max(v) AS m", "min(v) AS m, count(*) AS n", "2 * sum(v) AS m", "max(DISTINCT v) AS m")
    more = pick("", " AND x.v = y.m", " AND y.m >= x.v", f" AND x.v IS NOT NULL AND x.{keys[0]} IS NOT NULL")
    tail = pick("", "", " JOIN u ON u.k = x.k", " JOIN u ON u.k = y.k AND u.w IS NOT NULL")
    kind = pick("JOIN", "JOIN", "JOIN", "LEFT JOIN")
    having = pick("", "", "", "", " HAVING count(*) > 1")
    items = pick("*", "x.k, y.*", "x.s, y.m", "count(*), max(y.m)")
    groups = f"(SELECT {keys}, {value} FROM t{filter_} GROUP BY {keys}{having}) y"
    return f"SELECT {items} FROM t x {kind} {groups} ON {on}{more}{tail if 'k' in keys else ''}"


@pytest.mark.hypothesis
@given(tables(), subqueries() | joins(), st.sampled_from(OPTIONS), st.booleans())
def test_the_same_rows_as_plain_spark(
    session: SparkSession, share: Share, views: dict[str, str], query: str, options: Options, ansi: bool
) -> None:
    session.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    for name, text in views.items():
        few_rows(session, name, text)
        note(f"{name}: {text}")
    note(query)
    plan = Optimizer(session, options).plan(query)
    note(plan.sql())
    event(f"rewritten {plan.rewritten}, by {', '.join(plan.rules)}")
    for declined in plan.declined:
        event(f"declined {declined.rule}: {declined.reason[:60]}")
    if not share.count(plan.rewritten):
        return
    assert_same(session, query, plan)
