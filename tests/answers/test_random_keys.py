"""Joins by keys over random rows: OR, arrays, prefixes, bands, NULL as any value, in every kind of join.

The expected rows are Spark's own nested loop.  Every column has NULLs and duplicates; the conditions are trees of up
to three levels over the leaves below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from comparing import assert_same, few_rows
from dovetail import Optimizer, Options
from effort import examples
from sessions import for_few_rows
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

rewritten = at_least(0.7)

EQUALITIES = (
    "a.x = b.x", "a.x = b.y", "a.l = b.x", "a.f = b.f", "a.x = b.f", "a.s = b.s", "lower(a.s) = b.s", "a.d = b.d",
    "a.dc = b.x", "a.s <=> b.s", "a.x + 1 = b.y", "a.s = CAST(b.x AS STRING)", "TRY_CAST(a.s AS INT) = b.x",
)  # fmt: skip
ELEMENTS = (
    "array_contains(b.ns, a.x)", "arrays_overlap(a.ns, b.ns)", "exists(b.ns, e -> e = a.x)", "a.x IN (b.x, b.y, 3)",
    "array_contains(a.fs, b.f)", "arrays_overlap(a.ss, b.ss)", "size(array_intersect(a.ns, b.ns)) > 0",
    "size(array_intersect(a.ss, b.ss)) >= 2", "array_position(b.ns, a.x) > 0", "1 = array_position(a.fs, b.f)",
    "map_contains_key(b.m, a.x)", "b.s IN (a.s, a.t)", "array_contains(b.ns, a.l)", "a.x NOT IN (b.x, b.y)",
    "find_in_set(a.s, concat_ws(',', b.s, b.t)) > 0", "a.x = CASE WHEN a.y > 1 THEN b.x ELSE b.y END",
    "b.s = if(b.x > 1, a.s, a.t)", "exists(b.ps, e -> e.k = a.x)", "exists(a.ps, e -> e.n > 1 AND b.s = e.t)",
    "exists(b.ps, e -> e.n < a.y AND e.t = a.s)",
)  # fmt: skip
NULLS = (
    "a.x = b.x OR b.x IS NULL", "coalesce(b.s, a.s) = a.s", "(a.x = b.x) IS NOT FALSE",
    "equal_null(a.x, b.x)", "coalesce(b.x, b.y, a.x) = a.x", "position(b.t, a.s) = 1 OR b.t IS NULL",
    "CASE WHEN b.y = 1 THEN a.x = b.x WHEN a.s = b.s THEN b.x > 0 ELSE a.f = b.f END",
    "if(a.x > 2, a.s = b.s, a.d = b.d)",
    "a.x = CASE WHEN b.x = 1 THEN a.x ELSE b.x END", "if(b.t = 'a', a.s, b.s) = a.s",
    "CASE WHEN a.x = b.x THEN 1 WHEN a.s = b.s AND b.y > 1 THEN 1 ELSE 0 END = 1",
    "CASE WHEN a.x = b.x THEN 5 WHEN a.s = b.s THEN 2 ELSE 0 END > 1",
    "CASE WHEN a.x = b.x THEN 'x' WHEN a.s = b.s THEN NULL ELSE 'none' END <> 'none'",
    "CASE WHEN a.x = b.x THEN 1 WHEN a.s = b.s THEN 2 END IS NOT NULL",
    "(a.x, a.s) IN ((b.x, b.s), (b.y, b.t))", "1 = 0 OR a.x = b.x OR a.s = b.s",
    "a.s = b.s OR (a.s IS NULL AND b.s IS NULL)", "a.x IS NULL OR b.x IS NULL OR a.x = b.x",
)  # fmt: skip
PREFIXES = (
    "startswith(a.s, b.t)", "startswith(b.s, a.t)", "a.s LIKE concat(b.t, '%')", "b.s LIKE a.t || '_'", "a.s LIKE b.t",
    "left(a.s, length(b.t)) = b.t", "b.t = substring(a.s, 1, b.x)", "locate(b.t, a.s) = 1", "1 = instr(b.s, a.t)",
    "position(a.t IN b.s) = 1", "endswith(a.s, b.t)", "right(b.s, length(a.t)) = a.t", "a.s LIKE concat('%', b.t)",
    "b.t = substring(a.s, -b.x)", "b.s LIKE '_' || a.t", "endswith(CAST(a.s AS BINARY), CAST(b.t AS BINARY))",
    "startswith(CAST(a.s AS BINARY), CAST(b.t AS BINARY))", "contains(a.s, b.t)", "a.s LIKE concat('%', b.t, '%')",
    "a.s ILIKE '%' || b.t || '%'", "b.s ILIKE a.t || '%'",
    "instr(b.s, a.t) > 0", "b.s LIKE '%_' || a.t || '%'", "contains(CAST(b.s AS BINARY), CAST(a.t AS BINARY))",
    "locate(b.t, a.s) = 2",
)  # fmt: skip
BANDS = (
    "a.x BETWEEN b.x AND b.y", "b.x BETWEEN a.x AND a.y", "a.f BETWEEN b.f AND b.x", "a.l >= b.x AND a.l < b.y",
    "abs(a.x - b.x) <= 1", "a.d BETWEEN b.d AND date_add(b.d, 1)", "a.x <= b.y AND b.x <= a.y",
    "a.x >= b.x AND (a.x < b.y OR b.y IS NULL)", "a.f >= b.x AND (a.f < b.f OR b.s IS NULL)",
    "a.dc BETWEEN b.dc - 1 AND b.y", "(b.y IS NULL AND a.x >= b.x) OR a.x BETWEEN b.x AND b.y",
)  # fmt: skip
OTHERS = ("a.x > 2", "b.y < 3", "a.s IS NULL", "b.x IS NULL", "a.id < b.id", "a.id <> b.id", "a.x + b.x > 3")
NOT_IN = "(a.x, a.s) NOT IN"
VALUES_OF_B = (
    "EXISTS (SELECT 1 FROM b WHERE {}) AS f FROM a",
    "(SELECT count(*) FROM b WHERE {}) AS n, a.x IS NULL OR NOT EXISTS (SELECT 1 FROM b WHERE {}) AS f FROM a",
    "n.* FROM a LEFT JOIN LATERAL (SELECT count(b.s) AS n, max(b.y) AS m FROM b WHERE {}) n ON n.n > 1 WHERE a.id > 0",
    "n.m FROM a, LATERAL (SELECT count(*) + 1 AS n, min(b.s) AS m FROM b WHERE {}) n",
    "n.* FROM a LEFT JOIN LATERAL (SELECT b.y, upper(b.s) AS u, a.x IS NULL AS z FROM b WHERE {}) n",
    (
        "(SELECT size(collect_list(b.s)) + count_if(b.x > 1) FROM b WHERE {}) AS n, "
        "(SELECT any(b.x > 1) FROM b WHERE {}) AS f FROM a"
    ),
    (
        "n.*, array_sort(n.c) AS o FROM a LEFT JOIN LATERAL (SELECT sort_array(collect_set(b.y)) AS c, "
        "max_by(b.y, b.y) AS m, sum(b.y) FILTER (WHERE b.x > 1) AS f, every(b.x > 1) AS g FROM b WHERE {}) n"
    ),
)
JOINS = (
    "JOIN",
    "LEFT JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "LEFT SEMI JOIN",
    "LEFT ANTI JOIN",
    "EXISTS",
    "NOT EXISTS",
    NOT_IN,
    *VALUES_OF_B,
)
COLUMNS = {
    "id": "INT", "x": "INT", "y": "INT", "l": "BIGINT", "f": "DOUBLE", "s": "STRING", "t": "STRING", "d": "DATE",
    "dc": "DECIMAL(5,1)", "ns": "ARRAY<INT>", "fs": "ARRAY<DOUBLE>", "ss": "ARRAY<STRING>", "m": "MAP<INT,INT>",
    "ps": "ARRAY<STRUCT<k: INT, n: INT, t: STRING>>",
}  # fmt: skip

number = st.integers(0, 4).map(str)
real = st.sampled_from(("0D", "-0D", "double('NaN')", "1D", "2.5D", "double('inf')"))
text = st.sampled_from(("''", "'a'", "'A'", "'1'", "'2'", "'ab'", "'a%'", "'_b'", "'é𝄞'"))


def array(of: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """An array with NULLs and duplicates, or none."""
    return st.lists(st.one_of(of, of, st.just("NULL")), max_size=3).map(lambda items: f"array({', '.join(items)})")


VALUES: dict[str, st.SearchStrategy[str]] = {
    **dict.fromkeys(("id", "x", "y", "l", "dc"), number),
    **dict.fromkeys(("s", "t"), text),
    "f": real,
    "d": st.sampled_from(("DATE'2026-01-01'", "DATE'2026-01-02'")),
    "ns": array(number),
    "fs": array(real),
    "ss": array(text),
    "ps": array(st.builds("named_struct('k', {}, 'n', {}, 't', {})".format, number, number, text)),
    "m": st.sets(number, max_size=3).map(lambda keys: f"map({', '.join(f'{k}, {k}' for k in sorted(keys))})"),
}
row = st.tuples(
    *(VALUES[name] if name == "id" else st.one_of(*[VALUES[name]] * 4, st.just("NULL")) for name in COLUMNS)
)
leaf = st.one_of(
    *[st.sampled_from(EQUALITIES)] * 2, st.sampled_from(ELEMENTS + PREFIXES), st.sampled_from(NULLS + BANDS)
)


def joined(word: str, parts: list[str]) -> str:
    return f" {word} ".join(f"({part})" for part in parts)


def branches(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """An OR of conjunctions, each with something to make keys of."""
    more = st.lists(st.one_of(st.sampled_from(OTHERS), leaf), max_size=2)
    branch = st.tuples(inner, more).flatmap(lambda parts: st.permutations([parts[0], *parts[1]]))
    return st.lists(branch.map(lambda parts: joined("AND", parts)), min_size=2, max_size=3).map(
        lambda found: joined("OR", found)
    )


condition = st.tuples(
    st.one_of(branches(leaf), branches(st.one_of(leaf, branches(leaf))), st.sampled_from(ELEMENTS + NULLS + PREFIXES)),
    st.lists(st.one_of(st.sampled_from(OTHERS), leaf), max_size=2),
).flatmap(lambda parts: st.permutations([parts[0], *parts[1]]).map(lambda found: joined("AND", found)))


def statement(join: str, on: str) -> str:
    if join in VALUES_OF_B:
        return f"SELECT a.id, a.x, a.s, {join.replace('{}', on)}"
    if join == NOT_IN:
        return f"SELECT a.id, a.x, a.s FROM a WHERE {join} (SELECT b.x, b.s FROM b WHERE {on})"
    if "EXISTS" in join:
        return f"SELECT a.id, a.x, a.s FROM a WHERE {join} (SELECT 1 FROM b WHERE {on})"
    items = "a.id, a.x, a.s" if "SEMI" in join or "ANTI" in join else "a.id, a.x, a.s, b.id AS j, b.y, b.s AS t"
    return f"SELECT {items} FROM a {join} b ON {on}"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Any:
    return for_few_rows(spark)


@settings(max_examples=examples())
@given(join=st.sampled_from(JOINS), on=condition, a=st.lists(row, max_size=9), b=st.lists(row, max_size=9))
def test_conditions_of_keys(session: SparkSession, rewritten: Share, join: str, on: str, a: Any, b: Any) -> None:
    typed = ", ".join(f"CAST({name} AS {type_}) AS {name}" for name, type_ in COLUMNS.items())
    nothing = f"({', '.join(['NULL'] * len(COLUMNS))})"
    for name, rows in (("a", a), ("b", b)):
        values = ", ".join(f"({', '.join(row)})" for row in rows) or nothing
        where = "" if rows else " WHERE FALSE"
        few_rows(session, name, f"SELECT {typed} FROM VALUES {values} AS r({', '.join(COLUMNS)}){where}")
    query = statement(join, on)
    plan = Optimizer(session, Options(force=True)).plan(query)
    note(query)
    note("; ".join(declined.reason for declined in plan.declined))
    rewritten.count(plan.rewritten)
    assert_same(session, query, plan)


RECIPES = {
    # UNION drops rows that are equal in all columns.
    "union": "SELECT a.s, b.t FROM a JOIN b ON a.x = b.x UNION SELECT a.s, b.t FROM a JOIN b ON a.y = b.y",
    # A union of two left joins returns a row with NULLs beside the match of the other branch.
    "left": "SELECT a.s, b.t FROM a LEFT JOIN b ON a.x = b.x UNION SELECT a.s, b.t FROM a LEFT JOIN b ON a.y = b.y",
    # DISTINCT on top drops what the tables have twice.
    "distinct": "SELECT DISTINCT s, t FROM (SELECT a.s, b.t FROM a JOIN b ON a.x = b.x UNION ALL "
    "SELECT a.s, b.t FROM a JOIN b ON a.y = b.y)",
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_published_recipes_for_or_are_wrong_and_keys_are_not(session: SparkSession, recipe: str) -> None:
    few_rows(session, "a", "SELECT * FROM VALUES (1, 1, 'p'), (1, 1, 'p'), (7, 2, 'q') AS r(x, y, s)")
    few_rows(session, "b", "SELECT * FROM VALUES (1, 1, 'u'), (5, 2, 'v'), (1, 9, 'u') AS r(x, y, t)")
    kind = "LEFT JOIN" if recipe == "left" else "JOIN"
    query = f"SELECT a.s, b.t FROM a {kind} b ON a.x = b.x OR a.y = b.y"
    plan = Optimizer(session, Options(force=True)).plan(query)
    assert plan.rewritten
    assert_same(session, query, plan)
    wanted = sorted(session.sql(query).collect())
    assert len(wanted) == 5
    found = session.sql(RECIPES[recipe]).collect()
    assert len(found) != len(wanted)


def test_null_is_an_element_of_an_intersection(session: SparkSession) -> None:
    few_rows(session, "a", "SELECT * FROM VALUES (1, array(1, NULL)), (2, array(3)), (3, NULL) AS r(id, ns)")
    few_rows(session, "b", "SELECT * FROM VALUES (1, array(2, NULL, NULL)), (2, array(3, NULL)) AS r(id, ns)")
    for kind in ("JOIN", "LEFT JOIN", "FULL JOIN"):
        query = f"SELECT a.id, b.id AS j FROM a {kind} b ON size(array_intersect(a.ns, b.ns)) > 0"
        plan = Optimizer(session, Options(force=True)).plan(query)
        assert plan.rewritten
        assert_same(session, query, plan)


def test_a_condition_in_where_still_guards_a_branch(session: SparkSession) -> None:
    few_rows(session, "a", "SELECT * FROM VALUES ('n', '1', 'k'), ('s', 'bad', 'k') AS r(kind, v, k)")
    few_rows(session, "b", "SELECT * FROM VALUES (1, 'k', 'k') AS r(x, k, j)")
    for test in ("EXISTS", "NOT EXISTS"):
        query = (
            f"SELECT * FROM a WHERE kind = 'n' AND {test} (SELECT 1 FROM b WHERE CAST(a.v AS INT) = b.x OR a.k = b.k)"
        )
        assert_same(session, query, Optimizer(session, Options(force=True)).plan(query))


def test_not_in_of_two_columns_is_the_logic_of_three_values(session: SparkSession) -> None:
    values = ("NULL", "1", "2")
    rows = [(x, y) for x in values for y in values]
    sets = dict(enumerate(rows))  # one row each, and none
    few_rows(
        session,
        "a",
        "SELECT n, CAST(x AS INT) AS x, CAST(y AS INT) AS y FROM VALUES "
        + ", ".join(f"({n}, {x}, {y})" for n in range(len(rows) + 1) for x, y in rows)
        + " AS r(n, x, y)",
    )
    few_rows(
        session,
        "b",
        "SELECT n, CAST(x AS INT) AS x, CAST(y AS INT) AS y FROM VALUES "
        + ", ".join(f"({n}, {x}, {y})" for n, (x, y) in sets.items())
        + " AS r(n, x, y)",
    )
    query = "SELECT * FROM a WHERE (a.x, a.y) NOT IN (SELECT b.x, b.y FROM b WHERE b.n = a.n)"
    plan = Optimizer(session, Options(force=True)).plan(query)
    assert plan.rewritten
    assert_same(session, query, plan)

    def differs(one: str, other: str) -> bool:
        return "NULL" not in (one, other) and one != other

    wanted = {
        (n, *row) for n in range(len(rows) + 1) for row in rows if n not in sets or any(map(differs, row, sets[n]))
    }
    found = session.sql(plan.sql()).collect()
    assert {tuple("NULL" if value is None else str(value) for value in row) for row in found} == {
        (str(n), x, y) for n, x, y in wanted
    }


def test_texts_that_are_no_utf8_have_prefixes(session: SparkSession) -> None:
    texts = ("X''", "X'61'", "X'FF61'", "X'FE61'", "X'E282'", "X'E282AC'", "X'61FF'", "X'61EFBFBD62'", "NULL")
    for name in ("a", "b"):
        rows = ", ".join(f"({n}, {text})" for n, text in enumerate(texts))
        few_rows(session, name, f"SELECT id, CAST(s AS STRING) AS s FROM VALUES {rows} AS r(id, s)")
    starts = (
        "startswith(a.s, b.s)",
        "a.s LIKE concat(b.s, '%')",
        "left(a.s, length(b.s)) = b.s",
    )
    others = ("instr(a.s, b.s) = 1", "endswith(a.s, b.s)", "a.s LIKE concat('%', b.s)", "right(a.s, length(b.s)) = b.s")
    for on in (*starts, *others):
        query = f"SELECT a.id, b.id AS j FROM a LEFT JOIN b ON {on}"
        plan = Optimizer(session, Options(force=True)).plan(query)
        assert plan.rewritten
        assert_same(session, query, plan)


def test_a_condition_may_be_an_operand(session: SparkSession) -> None:
    few_rows(session, "a", "SELECT * FROM VALUES (1, 1, 5), (2, 3, NULL), (3, 3, 3) AS r(id, x, y)")
    few_rows(session, "b", "SELECT * FROM VALUES (1, false, 7), (2, true, NULL), (3, NULL, 3) AS r(id, t, y)")
    query = "SELECT a.id, b.id AS j FROM a FULL JOIN b ON (a.x > 1 AND a.y > 2) = b.t OR a.y = b.y"
    plan = Optimizer(session, Options(force=True)).plan(query)
    assert plan.rewritten
    assert_same(session, query, plan)


@pytest.mark.parametrize(
    "before", ["a.x = 1 OR", "a.s IS NULL OR", "NOT a.x = 1 OR", "a.x BETWEEN 1 AND 2 OR NOT", "a.x = 1 AND"]
)
def test_an_or_before_in_is_no_operand_of_it(session: SparkSession, before: str) -> None:
    few_rows(
        session, "a", "SELECT * FROM VALUES (1, 1, NULL, false), (2, 2, 'p', true), (3, 3, 'q', NULL) AS r(id, x, s, f)"
    )
    few_rows(session, "b", "SELECT * FROM VALUES (1, 'p', true), (2, 'q', false), (3, 'q', NULL) AS r(x, s, f)")
    for test, on in (("IN", "b.x = a.x OR b.s = a.s"), ("NOT IN", "a.x BETWEEN b.x AND b.x + 1"), ("IN", "b.x <= a.x")):
        query = f"SELECT a.id FROM a WHERE {before} a.f {test} (SELECT b.f FROM b WHERE {on})"
        assert_same(session, query, Optimizer(session, Options(force=True)).plan(query))
        for whole in ("NOT ({})", "CASE WHEN {} THEN true ELSE false END", "({}) AND a.id > 0"):
            where = whole.format(f"{before} a.f {test} (SELECT b.f FROM b WHERE {on})")
            query = f"SELECT a.id FROM a WHERE {where}"
            assert_same(session, query, Optimizer(session, Options(force=True)).plan(query))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.id, l.one FROM a LEFT JOIN LATERAL (SELECT 1 AS one FROM b WHERE b.x = a.x OR b.s = a.s) l ON true",
        "WITH r AS (SELECT id, explode(ns) AS e FROM b) SELECT a.id, r.e FROM a LEFT JOIN r ON r.e = a.x OR r.e = a.y",
        "SELECT a.id, r.e FROM a FULL JOIN (SELECT id, explode(ns) AS e FROM b) r ON r.e BETWEEN a.x AND a.y",
    ],
)
def test_rows_that_an_outer_join_keeps_beside_computed_ones(session: SparkSession, query: str) -> None:
    few_rows(session, "a", "SELECT * FROM VALUES (1, 1, 3, NULL), (2, 2, 9, 'p'), (3, NULL, 4, 'q') AS r(id, x, y, s)")
    few_rows(session, "b", "SELECT * FROM VALUES (1, 1, 'p', array(3, 3, NULL)), (2, 7, 'p', NULL) AS r(id, x, s, ns)")
    plan = Optimizer(session, Options(force=True)).plan(query)
    assert plan.rewritten
    assert_same(session, query, plan)
