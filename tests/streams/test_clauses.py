"""Clauses above a join return over its stored rows what they return over its relations, however columns are named."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from dovetail import Optimizer
from dovetail.executor.catalog.spark_catalog import SparkCatalog
from dovetail.optimizer.views.materialized_view import query_rows_as
from dovetail.planner.errors import Refused
from dovetail.planner.sql.from_sql import from_sql
from dovetail.rules.context import Context
from dovetail.rules.stream.view_query import view_query
from effort import SEED, examples
from sessions import for_few_rows
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {
    "a": (
        "id INT, x INT, w INT, s STRUCT<p: INT, w: INT>",
        [
            (1, 5, -9, (1, 2)),
            (1, 6, -1, (2, 2)),
            (1, 6, -2, (2, 3)),
            (None, 7, 3, (3, 3)),
            (2, 5, 4, None),
            (2, None, 1, (5, 1)),
        ],
    ),
    "b": ("bid INT, y INT, x INT, `order` INT", [(1, 3, 4, 1), (1, 3, 8, 2), (2, 4, 5, 3), (2, 2, None, 1)]),
}
JOIN = "FROM a JOIN b ON a.id = b.bid"
APART = "FROM a JOIN (SELECT bid, y, `order` FROM b) b ON a.id = b.bid"
WRITTEN = [
    f"SELECT -a.x AS x, count(DISTINCT w) AS c {APART} GROUP BY a.x HAVING x > -6",
    f"SELECT a.x AS y, b.y AS k, count(DISTINCT w) {APART} GROUP BY a.x, b.y HAVING y = 3",
    f"SELECT a.x, count(*) AS y {APART} GROUP BY a.x, b.y HAVING y > 2",
    f"SELECT x, count(DISTINCT b.y) {APART} GROUP BY a.x HAVING x > 5",
    f"SELECT a.x, b.y, count(*), grouping(a.x) {APART} GROUP BY GROUPING SETS ((a.x), (b.y, a.x), ())",
    f"SELECT a.x, b.y, count(*), grouping_id(a.x, b.y) {APART} GROUP BY a.x, b.y WITH ROLLUP",
    f"SELECT a.x, b.x, count(*) {JOIN} GROUP BY CUBE(a.x, b.x)",
    f"SELECT y + 1, y + 1 AS `order` {APART} GROUP BY ROLLUP(`order`, y)",
    f"SELECT y + 1 AS w, count(*) {APART} GROUP BY CUBE(w, y)",
    f"SELECT a.x % 2 AS x, count(DISTINCT w) {APART} GROUP BY x",
    f"SELECT s.p, count(DISTINCT y) {APART} GROUP BY a.s.p HAVING a.s.p > 1 ORDER BY s.p",
    f"SELECT a.x, sum(sum(a.id)) OVER (ORDER BY x) {APART} GROUP BY a.x",
    f"SELECT DISTINCT x {APART} ORDER BY a.x",
    f"SELECT count(DISTINCT b.y) AS n {APART} GROUP BY a.x HAVING count(b.y) > 0 ORDER BY n, a.x LIMIT 2",
    f"SELECT hash(*), a.x {JOIN}",
    f"SELECT count(DISTINCT *), max(hash(*)) {APART}",
    f"SELECT struct(*) {APART}",
    f"SELECT -a.x AS x {APART} ORDER BY a.x LIMIT 1",
    f"SELECT -a.x AS x {APART} ORDER BY x LIMIT 1",
    f"SELECT b.*, a.x AS a {JOIN}",
    f"SELECT a.x, b.x, rank() OVER w {JOIN} WINDOW w AS (PARTITION BY a.x ORDER BY b.x)",
    f"SELECT transform(array(1, 2), a -> a + b.y), transform(array(1), q -> q + a.x) {APART}",
    f"SELECT a.x AS `x y`, b.`order` {APART} ORDER BY b.`order` DESC, `x y`, a.w LIMIT 3",
    f"SELECT 'a.x' AS t, a.x {JOIN}",
    f"SELECT a.x, count(DISTINCT b.y) {JOIN} GROUP BY a.x ORDER BY x DESC LIMIT 2",
    f"SELECT b.x {JOIN} ORDER BY x NULLS LAST, bid LIMIT 3",
    f"SELECT max(struct(a.x, b.x, w)), count(DISTINCT w) {JOIN}",
    f"SELECT struct(b.x AS q, a.x, a.s.p), named_struct('x', b.x) {JOIN} ORDER BY a.x",
]

share = at_least(0.8)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    found = for_few_rows(spark)
    for name, (columns, rows) in TABLES.items():
        found.createDataFrame(rows, columns).createOrReplaceTempView(name)
    return found


def stored(session: SparkSession, text: str) -> list[str] | None:
    """The rows of a query over the stored rows of its join; None where it is not taken."""
    opt = Optimizer(session)
    ctx = Context(SparkCatalog(session), opt.options)
    try:
        kept = view_query(from_sql(text)[0], ctx)
    except Refused:
        return None
    rows = session.sql(kept.joined)
    try:
        query_rows_as(rows.limit(0), kept.above, session.sql(text).schema)
    except AnalysisException:  # opt.materialize refuses it
        return None
    return sorted(map(str, query_rows_as(rows, kept.above, session.sql(text).schema).collect()))


@pytest.mark.parametrize("text", WRITTEN)
def test_as_over_the_relations(session: SparkSession, text: str) -> None:
    assert stored(session, text) == sorted(map(str, session.sql(text).collect()))


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT -a.x AS x, x AS z {APART} ORDER BY a.x LIMIT 1",
        f"SELECT b.x, count(DISTINCT y) AS w {JOIN} GROUP BY b.x HAVING max(a.w) > -5 ORDER BY w",
        f"SELECT transform(array(1, 2), x -> x + a.x) {APART}",
        f"SELECT -a.x AS x, max(y) {APART} GROUP BY ROLLUP(x, a.x) HAVING a.x > 1",
        f"SELECT -a.x AS x, max(y) {APART} GROUP BY x, a.x HAVING a.x > 1",
        f"SELECT * EXCEPT (x) {APART}",
    ],
)
def test_what_would_mean_something_else(session: SparkSession, text: str) -> None:
    assert session.sql(text).collect()
    assert stored(session, text) is None


COLUMNS = ["a.x", "a.w", "w", "b.y", "y", "a.s.p", "s.p", "`order`", "b.`order`", "a.id"]
ALIASES = ["x", "w", "y", "n", "p", "id", "`order`", "a"]


def query(random: Random) -> str:
    """A query with groups, whose items, conditions and order name columns and items in any way."""
    plain, join = ["x", *COLUMNS], APART
    structs = [f"max(struct({', '.join(random.sample(COLUMNS[:5], 2))}))"]
    if random.random() < 0.3:
        plain, join = ["b.x", *COLUMNS], JOIN
        structs = [f"max(struct(b.x, {random.choice(COLUMNS)}))", "min(struct(a.x AS q, b.x))"]
    groups = random.sample(plain, random.randint(1, 2))
    pick = [*groups, *groups, random.choice(plain)]
    query_rows_as = [random.choice(plain) for _ in range(4)]
    aggregates = [
        f"count({query_rows_as[0]})",
        f"max({query_rows_as[1]})",
        f"sum({query_rows_as[2]})",
        f"count(DISTINCT {query_rows_as[3]})",
    ]
    aggregates += structs
    items = []
    for _ in range(random.randint(1, 3)):
        item = random.choice([*pick, f"-{random.choice(groups)}", f"{random.choice(groups)} + 1", *aggregates])
        items.append(f"{item} AS {random.choice(ALIASES)}" if random.random() < 0.6 else item)
    by = random.choice([", ".join(groups), f"ROLLUP({', '.join(groups)})", ", ".join(groups)])
    terms = [*pick, *map(str, ALIASES[:6]), *aggregates]
    having = f" HAVING {random.choice(terms)} {random.choice(('>', '<', '<='))} {random.randint(-6, 6)}"
    order = f" ORDER BY {', '.join(random.sample(terms, random.randint(1, 2)))}"
    having, order = (clause if random.random() < 0.6 else "" for clause in (having, order))
    return f"SELECT {', '.join(items)} {join} GROUP BY {by}{having}{order}"


@pytest.mark.hypothesis
def test_any_names(session: SparkSession, share: Share) -> None:
    random = Random(f"clauses {SEED}")
    for _ in range(examples()):
        text = query(random)
        try:
            expected = Counter(map(str, session.sql(text).collect()))
        except AnalysisException:
            continue
        found = stored(session, text)
        if share.count(found is not None):
            assert Counter(found) == expected, text
