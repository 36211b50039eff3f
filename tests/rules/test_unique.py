"""Which columns keep the rows of a relation apart, and what ends a key."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.executor.catalog.keys import parse_constraints
from dovetail.planner.catalog.cost import Thresholds
from dovetail.planner.logical import Cte, Filter, Project
from dovetail.planner.offline_catalog.catalog import CatalogFile
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from dovetail.planner.sql.from_sql import from_sql
from dovetail.rules.analysis.unique import unique_keys
from dovetail.rules.context import Context

TABLES = """
[tables.t]
columns = { id = "BIGINT", k = "INT", v = "DOUBLE" }
keys = [["id"]]
informational_keys = [["k", "v"]]
[tables.u]
columns = { id = "BIGINT", k = "INT" }
[tables.few]
columns = { id = "BIGINT", k = "INT" }
view = "SELECT id, k FROM t WHERE v > 1"
[tables.sums]
columns = { k = "INT", n = "BIGINT" }
view = "WITH c AS (SELECT * FROM u) SELECT k, count(*) AS n FROM c GROUP BY k"
"""
WITH = "WITH c AS (SELECT * FROM t), d(a, b) AS (SELECT k, max(v) m FROM t GROUP BY k) "

# What is read in FROM, the keys without NULL in them, the keys where a NULL is equal to another.
KEYS = [
    ("t", "id", ""),
    ("T x", "id", ""),
    ("t x(a, b, c)", "a", ""),
    ("u", "", ""),
    ("(t)", "id", ""),
    ("(SELECT * FROM t WHERE v > 1 ORDER BY k LIMIT 3) y", "id", ""),
    ("(SELECT id AS a, k FROM t z) y", "a", ""),
    ("(SELECT id AS a, k FROM t z) y(p, q)", "p", ""),
    ("(SELECT k, v FROM t) y", "", ""),
    ("(SELECT id + 1 AS id FROM t) y", "", ""),
    ("(SELECT id, explode(sequence(1, k)) AS n FROM t) y", "", ""),
    ("(SELECT id, json_tuple(k, 'a') AS n FROM t) y", "", ""),
    ("(SELECT id FROM t UNION ALL SELECT id FROM t) y", "", ""),
    ("(SELECT id, k FROM u UNION SELECT id, k FROM t) y", "id k", "id k"),
    ("(SELECT id FROM u EXCEPT SELECT id FROM t) y", "id", "id"),
    ("(SELECT id FROM u INTERSECT ALL SELECT id FROM u) y", "", ""),
    ("(SELECT DISTINCT k, id FROM u) y", "id k", "id k"),
    ("(SELECT DISTINCT k, id AS k FROM u) y", "", ""),
    ("(SELECT DISTINCT k + 1 FROM u) y", "", ""),
    ("(SELECT k, sum(v) s FROM t GROUP BY k) y", "k", "k"),
    ("(SELECT k AS g, sum(v) s FROM t GROUP BY 1 HAVING s > 2) y", "g", "g"),
    ("(SELECT k % 2 AS g, count(*) FROM t GROUP BY g) y", "g", "g"),
    ("(SELECT k % 2 AS g, count(*) FROM t GROUP BY k % 2) y", "g", "g"),
    ("(SELECT k % 2 AS k, count(*) n FROM t GROUP BY k) y", "", ""),
    ("(SELECT hex(k), max(id) AS hex FROM u GROUP BY hex(k)) y", "", ""),
    ("(SELECT DISTINCT * FROM u JOIN (SELECT k AS g FROM t) ON k = g) y", "g id k", "g id k"),
    ("(SELECT id, k, count(*) FROM u GROUP BY k, u.id) y", "id k", "id k"),
    ("(SELECT k, count(*) FROM u GROUP BY k, id) y", "", ""),
    ("(SELECT k, count(*) FROM u GROUP BY ROLLUP(k)) y", "", ""),
    ("(SELECT k, count(*) FROM u GROUP BY k WITH CUBE) y", "", ""),
    ("(SELECT k, count(*) FROM u GROUP BY GROUPING SETS ((k), ())) y", "", ""),
    ("(SELECT k, count(*) FROM u GROUP BY ALL) y", "k", "k"),
    ("(SELECT rand() r, count(*) FROM u GROUP BY rand()) y", "", ""),
    ("(SELECT max(v) m FROM t) y", "()", "()"),
    ("(SELECT any(v > 1) b FROM t) y", "()", "()"),
    ("(SELECT max(v) OVER () m FROM t) y", "", ""),
    ("(SELECT t.id FROM t JOIN u ON t.k = u.k) y", "", ""),
    ("(SELECT t.id FROM t LATERAL VIEW explode(sequence(1, 3)) e AS n) y", "", ""),
    ("(SELECT t.id FROM t SEMI JOIN u ON t.k = u.k) y", "id", ""),
    ("t TABLESAMPLE (10 PERCENT)", "", ""),
    ("t VERSION AS OF 3", "", ""),
    ("c x", "id", ""),
    ("d x", "a", "a"),
    ("d x(p, q)", "p", "p"),
    ("few", "id", ""),
    ("few f(a, b)", "a", ""),
    ("sums s", "k", "k"),
    ("VALUES (1)", "", ""),
]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> CatalogFile:
    path = tmp_path_factory.mktemp("catalog") / "tables.toml"
    path.write_text(TABLES)
    return read_catalog(path)


def keys_of(relation: str, catalog: CatalogFile, *, nulls: bool = False, trust: bool = False) -> set[str]:
    plan, _ = from_sql(f"{WITH}SELECT 1 FROM {relation}")
    definitions = {n.key: n for n in plan.walk() if isinstance(n, Cte)}
    ctx = Context(catalog, Thresholds(trust_informational_keys=trust), definitions=definitions)
    block = plan.children[-1]
    assert isinstance(block, Project)
    assert not isinstance(block.child, Filter)
    return {" ".join(sorted(key)) or "()" for key in unique_keys(block.child, ctx, nulls=nulls)}


@pytest.mark.parametrize(("relation", "found", "with_nulls"), KEYS)
def test_the_keys_of_a_relation(catalog: Any, relation: Any, found: Any, with_nulls: Any) -> None:
    assert keys_of(relation, catalog) == ({found} if found else set())
    assert keys_of(relation, catalog, nulls=True) == ({with_nulls} if with_nulls else set())


def test_an_informational_key_counts_where_it_is_trusted(catalog: Any) -> None:
    assert keys_of("t", catalog, trust=True) == {"id", "k v"}
    assert keys_of("(SELECT v, k AS a FROM t) y", catalog, trust=True) == {"a v"}


def test_constraints_as_a_catalog_tells_them() -> None:
    rows = [
        ("id", "int", None),
        ("", "", ""),
        ("# Constraints", "", ""),
        ("pk", "PRIMARY KEY (id, `odd name`) NOT ENFORCED RELY", ""),
        ("un", "UNIQUE (id) ENFORCED", ""),
        ("deep", "UNIQUE (a.b) ENFORCED", ""),
        ("ck", "CHECK (id > 0) ENFORCED", ""),
        ("fk", "FOREIGN KEY (id) REFERENCES cat.db.t (id) NOT ENFORCED", ""),
        ("# Partitioning", "", ""),
        ("x", "UNIQUE (x) ENFORCED", ""),
    ]
    found = parse_constraints(rows)
    assert [(k.columns, k.enforced) for k in found] == [(("id", "odd name"), False), (("id",), True)]
