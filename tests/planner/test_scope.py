"""Scopes bind names as Spark does, and give one form to all spellings of an expression, and to nothing else."""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING

import pytest

from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import Scope
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Scan
from dovetail.planner.offline_catalog.catalog import CatalogFile
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.types.schema import Column, sql_type

if TYPE_CHECKING:
    from pathlib import Path

TABLES = """
[session]
case_sensitive = {case}
[tables.p]
columns = {{ k = "INT", s = "STRUCT<x: INT, y: INT>", "s.x" = "INT", a = "INT" }}
[tables.q]
columns = {{ k = "INT", b = "INT" }}
"""
MEANINGS = {  # the relation, the column and the field of it that a name means, and the ways to write it
    "p.k": ("p.k", "`p`.k", "p . `k`"),
    "q.k": ("q.k", "q.`k`"),
    "p.a": ("p.a", "a", "`a`", "p.`a`"),
    "p.s": ("s", "p.s"),
    "p.s.x": ("s.x", "p.s.x", "`s`.`x`", "p.`s`.x"),
    "p.s.y": ("s.y", "p.s.y"),
    "p.`s.x`": ("`s.x`", "p.`s.x`", "`p`.`s.x`"),
    "q.b": ("b", "q.b"),
}
OTHER_CASE = {"p.a": ("A", "P.a", "p.A"), "p.s.x": ("S.X", "P.s.X"), "p.`s.x`": ("p.`S.x`",), "q.b": ("Q.B",)}
SHAPES = ("{}", "({})", "{} + 1", "abs({})", "ABS( {} )", "CASE WHEN {} > 0 THEN 1 END")
ALIKE = {"({})": "{}", "ABS( {} )": "abs({})"}


def scope(path: Path, case: str) -> Scope:
    file = path / "tables.toml"
    file.write_text(TABLES.format(case=case))
    catalog = read_catalog(file)
    return Scope.of(Resolver(catalog, {}), *(Scan((name,), name, None) for name in ("p", "q")))


@pytest.mark.parametrize("case", ["true", "false"])
def test_equal_forms_mean_the_same(tmp_path: Path, case: str) -> None:
    """Every pair of spellings in every shape: the forms are equal where shape and meaning are, and nowhere else."""
    own = scope(tmp_path, case)
    names = [(meaning, name) for meaning, spelt in MEANINGS.items() for name in spelt]
    if case == "false":
        names += [(meaning, name) for meaning, spelt in OTHER_CASE.items() for name in spelt]
    made = [
        ((ALIKE.get(shape, shape), meaning), text, own.bind(Scalar(text)).canonical)
        for shape, (meaning, name) in product(SHAPES, names)
        for text in [shape.format(name)]
    ]
    for (one, text, form), (other, second, form_of_second) in combinations_with_replacement(made, 2):
        assert (form == form_of_second) == (one == other), (text, second)


def test_names_of_another_case_are_no_columns(tmp_path: Path) -> None:
    own = scope(tmp_path, "true")
    assert [own.find(c) for _, spelt in OTHER_CASE.items() for n in spelt for c in Scalar(n).columns] == [None] * 7


def test_types_are_requested_when_a_rule_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a name, nor a type that follows from the text, nor the hash of a column is a question to Spark."""
    requests: list[str] = []

    def schema(_: CatalogFile, query: str) -> tuple[Column, ...]:
        requests.append(query)
        return Column("k", sql_type("int")), Column("t", sql_type("string"))

    monkeypatch.setattr(CatalogFile, "schema", schema)
    file = tmp_path / "tables.toml"
    file.write_text(TABLES.format(case="false"))
    catalog = read_catalog(file)
    query, _ = from_sql("SELECT x.t FROM (SELECT y.* FROM (SELECT k, user_function(a) AS t FROM p) AS y) AS x")
    found = Scope.of(Resolver(catalog, {}), query.children[0])
    k, t = (found.column(c) for c in Scalar("x.k + t").columns)
    assert {t: 1}[found.column(Scalar("x.t").columns[0])] == 1
    assert k.column.type == sql_type("int")
    assert not requests
    assert t.column.type == sql_type("string")
    assert requests == ["SELECT k, user_function(a) AS t\nFROM p"]
