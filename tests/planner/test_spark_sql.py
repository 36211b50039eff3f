"""Spark SQL through sqlglot: what is printed is what was read, and a tree keeps its meaning wherever it is put."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from dovetail.planner.errors import Unsupported
from dovetail.planner.expr import Scalar, parse, sql
from dovetail.planner.expr.calls import FUNCTIONS

ROOT = Path(__file__).parents[2]

CARRIED = [
    *("a % b * c", "a + b % c", "a || b + c", "-a::INT", "a.b.c[0].d['x']", "named_struct('a', 1).a", "a >> 1"),
    *("NOT a AND b", "NOT (a AND b)", "x NOT IN (1, 2)", "NOT x IN (1)", "x IS NOT NULL", "NOT x IS NULL", "a <=> b"),
    *("x NOT BETWEEN 1 AND 2 AND NOT y BETWEEN 3 AND 4", "x IS NOT DISTINCT FROM y", "x NOT LIKE 'a' ESCAPE '!'"),
    *("'it''s'", '"a""b"', r"'\d'", r"r'\d'", "x'1F'", "1L", "1.5BD", "-1.5e3D", ".5", "1e3", "DATE'2020-01-01'"),
    *("CAST(1 AS BIGINT)", "1::BIGINT", "int(a)", "TRY_CAST(a AS DECIMAL(10,2))", "CAST(a AS STRUCT<a: INT>)"),
    *("INTERVAL 1 DAY", "INTERVAL '1' DAYS", "INTERVAL -1 HOUR", "INTERVAL 1 DAY 2 HOURS", "INTERVAL '1 day 2 hours'"),
    *("INTERVAL '1-2' YEAR TO MONTH", "ts - INTERVAL '1 02:03:04' DAY TO SECOND", "to_char(v, '999')", "Abs(x)"),
    *("parse_json(q)", "safe_divide(a, b)", "iif(a, b, c)", "truncate(a)", "to_double(a)", "ts_or_ds_add(a, 1)"),
    *("date_sub(d, 1)", "date_add(HOUR, 1, d)", "datediff(a, b)", "year(ts)", "to_date(s, 'yyyy')", "trunc(d, 'MM')"),
    *("nvl(a, b)", "ifnull(a, b)", "if(a, b, c)", "db.abs(x)", "`abs`(x)", "current_date", "current_date()", "now()"),
    *(
        "exists(a, x -> x.v > y.v)",
        "transform(a, (x, i) -> x + i)",
        "count(DISTINCT a, b)",
        "count(*)",
        "mean(a)",
        "sum(ALL a)",
    ),
    *("max_by(a, b) FILTER (WHERE c)", "sum(a) OVER (PARTITION BY b ORDER BY c DESC)", "first(a) IGNORE NULLS"),
    *("lead(a) OVER (ORDER BY a NULLS FIRST, b DESC NULLS LAST)", "rank() OVER (ORDER BY a NULLS LAST)"),
    *("trim(a)", "trim(BOTH 'x' FROM a)", "substring(a FROM 2 FOR 3)", "position('x' IN a)", "extract(YEAR FROM a)"),
    *("CASE a WHEN 1 THEN b OR c ELSE d END", ":a", ":A", "?", "m.a", "m.A", "(1, 2) = (a, b)", "a COLLATE UTF8_LCASE"),
]
# Read as something else by sqlglot, or not at all: carried as text only.
NOT_CARRIED = [
    "a = b = c",
    "a >>> 1",
    "'a' 'b'",
    "CAST(a AS CHAR(5))",
    "a:b",
    "ROLLUP(x, y)",
    "CUBE (x)",
    "a IS UNKNOWN",
    "+a",
    "a, b",
    "a b c",
    "",
]


@pytest.mark.parametrize("text", CARRIED)
def test_what_is_printed_is_what_was_read(text: Any) -> None:
    tree = parse(text)
    assert parse(sql(tree)) == tree
    other = {".5": "0.5", "sum(ALL a)": "sum(a)", "x IS NOT DISTINCT FROM y": "x <=> y"}.get(text, text)
    other = other.replace("a NULLS FIRST, b DESC NULLS LAST", "a, b DESC")  # where ORDER BY puts NULL anyway
    assert re.sub(r"\s", "", sql(tree)).upper() == re.sub(r"\s", "", other).upper()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_that_rules_understand_is_read(name: Any) -> None:
    kind, arguments = FUNCTIONS[name]
    tree = parse(f"{name.lower()}({', '.join('abcdefg'[: len(arguments)])})")
    assert type(tree) is kind
    assert parse(sql(tree)) == tree


@pytest.mark.parametrize("text", NOT_CARRIED)
def test_what_sqlglot_reads_otherwise_is_no_tree(text: Any) -> None:
    with pytest.raises(Unsupported):
        parse(text)


def _operands() -> st.SearchStrategy[exp.Expression]:
    names = st.sampled_from(["a", "b", "t.c", "1", "'x'", "f(a)", "DATE '2020-01-01'", "a[0]", "INTERVAL 1 DAY"])
    return names.map(lambda text: parse(text).copy())


def _joined(below: st.SearchStrategy[exp.Expression]) -> st.SearchStrategy[exp.Expression]:
    def two(kind: Any) -> st.SearchStrategy[exp.Expression]:
        return st.tuples(below, below).map(lambda p: kind(this=p[0].copy(), expression=p[1].copy()))

    def one(kind: type[exp.Expression]) -> st.SearchStrategy[exp.Expression]:
        return below.map(lambda e: kind(this=e.copy()))

    kinds = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.DPipe, exp.And, exp.Or, exp.EQ, exp.NEQ)
    more = (exp.LT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.Like)
    last = (exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.RegexpLike)
    between = st.tuples(below, below, below).map(
        lambda p: exp.Between(this=p[0].copy(), low=p[1].copy(), high=p[2].copy())
    )
    in_ = st.tuples(below, below).map(lambda p: exp.In(this=p[0].copy(), expressions=[p[1].copy()]))
    is_ = below.map(lambda e: exp.Is(this=e.copy(), expression=exp.Null()))
    dot = below.map(lambda e: exp.Dot(this=e.copy(), expression=exp.to_identifier("f")))
    at = st.tuples(below, below).map(lambda p: exp.Bracket(this=p[0].copy(), expressions=[p[1].copy()]))
    cast = below.map(lambda e: exp.Cast(this=e.copy(), to=exp.DataType.build("int")))
    case = st.tuples(below, below, below).map(
        lambda p: exp.Case(this=p[0].copy(), ifs=[exp.If(this=p[1].copy(), true=p[2].copy())])
    )
    return st.one_of(
        *(two(kind) for kind in (*kinds, *more, *last)),
        *map(one, (exp.Not, exp.Neg, exp.BitwiseNot)),
        between,
        in_,
        is_,
        dot,
        at,
        cast,
        case,
    )


def _bare(tree: exp.Expr) -> exp.Expr:
    """A tree without parentheses, in which a column's fields are one thing however they are held."""

    tree = tree.copy()
    for node in list(tree.walk(bfs=False))[::-1]:
        new = node
        if isinstance(node, exp.Paren):
            new = node.this
        elif isinstance(node, exp.Column):
            new = node.to_dot(include_dots=False) if node.table else node.this
        elif isinstance(node, exp.Cast):
            new = exp.Cast(this=node.this, to=node.to)
        if isinstance(node, exp.Div | exp.DPipe):
            new = type(node)(this=node.this, expression=node.expression)
        if node is tree:
            tree = new
        else:
            node.replace(new)
    return tree


@given(st.recursive(_operands(), _joined, max_leaves=8))
def test_a_tree_keeps_its_meaning_when_it_is_printed(tree: Any) -> None:
    again = parse(sql(tree))
    assert _bare(again) == _bare(tree), sql(tree)
    assert sql(again) == sql(tree)


def test_an_expression_put_in_the_place_of_a_column_is_an_operand() -> None:
    inner, outer = parse("x - y"), parse("10 - c")
    found = outer.copy().transform(lambda n: inner.copy() if isinstance(n, exp.Column) else n)
    assert sql(found) == "10 - (x - y)"


def test_no_column_is_asserted_where_there_is_none() -> None:
    assert [c.text for c in Scalar("(named_struct('a', v)).a").columns] == ["v"]
    assert [c.text for c in Scalar("exists(y.a, x -> x.v > y.v)").columns] == ["y.a", "y.v"]


def test_sqlglot_warns_nobody(caplog: pytest.LogCaptureFixture) -> None:
    for text in ("to_char(v, '999')", "get_json_object(a, '$[')", "percentile_approx(a, 0.5, 100)", "hash(a)"):
        sql(parse(text))
    assert not caplog.records


def test_one_file_speaks_to_sqlglot() -> None:
    found = []
    for folder in ("planner", "rules", "executor", "optimizer", "dovetail", "golden_plans"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if re.search(r"dialect=|parse_one|sqlglot\.dialects", text):
                found.append(f"{folder}/{path.relative_to(ROOT / folder)}")
    assert sorted(found) == ["planner/expr/dialect.py"]
