"""What is the same source: down to the base, through aliases, subqueries and WITH; and what is not, with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.planner.catalog.cost import Thresholds
from dovetail.planner.errors import Refused
from dovetail.planner.logical import Cte
from dovetail.planner.logical.base import Logical
from dovetail.planner.offline_catalog.catalog import CatalogFile
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from dovetail.planner.sql.from_sql import from_sql
from dovetail.rules.analysis.same_source import same_source
from dovetail.rules.context import Context
from dovetail.rules.query.inner_joins import InnerJoins, inner_joins
from dovetail.rules.query.query_block import read_block

TABLES = """
[tables.t]
columns = { id = "BIGINT", k = "INT", v = "DOUBLE" }
[tables.u]
columns = { id = "BIGINT", k = "INT", v = "DOUBLE" }
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> CatalogFile:
    path = tmp_path_factory.mktemp("catalog") / "tables.toml"
    path.write_text(TABLES)
    return read_catalog(path)


def joins_of(sql: str, catalog: CatalogFile) -> tuple[InnerJoins, Context]:
    plan, _ = from_sql(sql)
    ctx = Context(catalog, Thresholds(), definitions={n.key: n for n in plan.walk() if isinstance(n, Cte)})
    block = read_block(plan)
    assert block is not None
    return inner_joins(block, ctx.names), ctx


SAME = [
    ("t x, t y", ()),
    ("t x, T y", ()),
    ("t x JOIN t AS y ON x.id = y.id", ()),
    ("t, (SELECT * FROM t) y", ()),
    ("t x, (SELECT id AS a, k FROM t z) y", ()),
    ("t x, (SELECT id FROM t z WHERE z.v > 1) y", ('"v" > 1',)),
    ("t x, (SELECT id FROM (SELECT * FROM t WHERE k = 2) z WHERE z.v > 1) y", ('"k" = 2', '"v" > 1')),
    ("t x, (SELECT id FROM t z WHERE z.v <> 0 AND 1 / z.v > 2) y", ('"v" <> 0', '1 / "v" > 2')),
    ("c x, c y", ()),
    ("c x, t y", ()),
    ("d x, d y", ()),
    ("(SELECT k, sum(v) s FROM t GROUP BY k) x, (SELECT k, sum(v) s FROM t GROUP BY k) y", ()),
    ("t x, t VERSION AS OF 3 AS y", None),
    ("t VERSION AS OF 3 x, t VERSION AS OF 3 AS y", ()),
    ("t VERSION AS OF 3 x, t VERSION AS OF 4 AS y", None),
    ("t x, u y", None),
    (", ".join(f"(SELECT id AS v, k AS v FROM t GROUP BY id, k) {name} (a, b)" for name in "xy"), None),
    ("t x, db.t y", None),
    ("t x, (SELECT DISTINCT id FROM t) y", None),
    ("t x, (SELECT id FROM t LIMIT 3) y", None),
    ("t x, t TABLESAMPLE (10 PERCENT) y", None),
    ("t x, (SELECT id FROM t WHERE rand() < 0.5) y", None),
    ("t x, VALUES (1) y", None),
    ("t x, (SELECT max(id) AS id FROM t) y", None),
    ("t x, (SELECT id, count(*) OVER () AS n FROM t) y", None),
    ("t x, (SELECT id, explode(sequence(1, 3)) AS n FROM t) y", None),
    ("(SELECT max(id) AS m FROM t) x, (SELECT max(id) AS m FROM t) y", ()),
    ("(SELECT id, explode(sequence(1, 3)) AS n FROM t) x, (SELECT id, explode(sequence(1, 3)) AS n FROM t) y", ()),
]
WITH = "WITH c AS (SELECT * FROM t), d(a, b) AS (SELECT k, max(v) m FROM t GROUP BY k) "


def two(joins: InnerJoins) -> tuple[Logical, Logical]:
    left, right = joins.relations
    return left, right


@pytest.mark.parametrize(("tables", "filters"), SAME)
def test_the_same_source(catalog: Any, tables: Any, filters: Any) -> None:
    joins, ctx = joins_of(f"{WITH}SELECT 1 FROM {tables}", catalog)
    found = same_source(*two(joins), ctx)
    if filters is None:
        assert found is None
    else:
        assert found is not None
        left, right = found
        assert left.key == right.key
        assert not left.filters
        assert right.filters == tuple(f.replace('"', "`") for f in filters)


@pytest.mark.parametrize(
    "query",
    ["SELECT id FROM t LIMIT 3", "SELECT id, rand() r FROM t", "SELECT id, row_number() OVER (ORDER BY k) n FROM t"],
)
def test_the_same_text_with_other_rows_each_time(catalog: Any, query: Any) -> None:
    joins, ctx = joins_of(f"SELECT 1 FROM ({query}) x, ({query}) y", catalog)
    with pytest.raises(Refused, match="read twice"):
        same_source(*two(joins), ctx)


def test_columns_are_told_in_terms_of_the_base(catalog: Any) -> None:
    joins, ctx = joins_of("SELECT 1 FROM t x, (SELECT id AS a, v + 1 AS w, K FROM t z) y(p, q, r)", catalog)
    found = same_source(*two(joins), ctx)
    assert found is not None
    assert [(c.name, c.value) for c in found[1].columns] == [("p", "`id`"), ("q", "`v` + 1"), ("r", "`k`")]
    assert found[1].output_name("`k`") == "r"
    assert found[1].output_name("`v`") is None


def test_inner_joins_in_order(catalog: Any) -> None:
    tables = "t a JOIN (u b JOIN t c ON b.id = c.id) ON a.k = b.k, (u d LEFT JOIN u e ON d.id = e.id)"
    joins, _ = joins_of(f"SELECT 1 FROM {tables} WHERE a.v > 1", catalog)
    assert [r.label for r in joins.relations] == ["Scan", "Scan", "Scan", "Join"]
    assert [c.text for c in joins.conjuncts] == ["b.id = c.id", "a.k = b.k", "a.v > 1"]
    assert joins.scope.items == (0, 1, 2, 3, 3)


def test_rebuilt_in_place(catalog: Any) -> None:
    joins, _ = joins_of("SELECT 1 FROM t a JOIN u b ON a.id = b.id WHERE a.v > 1", catalog)
    tree, where = joins.rebuilt({}, lambda c: None if "id" in c.text else c)
    assert tree.detail == "cross"
    assert [c.text for c in where] == ["a.v > 1"]
    same, kept = joins.rebuilt({}, lambda c: c)
    assert same == joins.block.tree
    assert kept == joins.block.condition
