"""Statements around queries, FROM first, pipes and USING: rewritten, and with the rows of plain Spark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from comparing import assert_same, few_rows
from dovetail import Optimizer, Options
from sessions import for_few_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORCE = Options(force=True, strict=True)
BAND = "p.k = i.k AND p.x BETWEEN i.lo AND i.hi"


@pytest.fixture(scope="module")
def own(spark: SparkSession) -> SparkSession:
    session = for_few_rows(spark)
    few_rows(
        session,
        "points",
        "SELECT nullif(id, -1) AS id, nullif(id % 3, 2) AS k, (id * 7) % 50 AS x, id % 5 AS v FROM range(40)",
    )
    few_rows(
        session,
        "intervals",
        "SELECT nullif(id, -1) AS i, nullif(id % 3, 1) AS k, nullif(id * 3, -9) AS lo, "
        "nullif(id * 3 + id % 9 - 1, -9) AS hi, id % 4 AS v FROM range(15)",
    )
    few_rows(session, "marks", "SELECT id AS k, concat('m', id) AS name FROM range(3)")
    return session


QUERIES = (
    f"FROM points p JOIN intervals i ON {BAND} SELECT p.id, i.i WHERE p.v > 1 ORDER BY p.id LIMIT 7",
    f"FROM points p |> JOIN intervals i ON {BAND} |> SELECT p.id, i.i",
    f"""FROM points |> WHERE v > 1 |> EXTEND x + 1 AS y, v * 2 |> AS p |> LEFT JOIN intervals i ON {BAND}
    |> SELECT p.*, i""",
    f"""TABLE points |> AS p |> JOIN intervals i ON {BAND} |> AGGREGATE count(*) AS n, sum(x) GROUP BY i.k
    AS key, hi - lo""",
    """FROM points p, intervals i |> WHERE p.x BETWEEN lo AND hi |> EXTEND x - lo AS d |> WHERE d > 0 |>
    AGGREGATE max(d)""",
    f"FROM points p |> JOIN intervals i ON {BAND} |> ORDER BY id, i |> LIMIT 5 |> ORDER BY x |> SELECT id, i",
    f"FROM points p |> JOIN intervals i ON {BAND} |> SELECT id, i |> UNION ALL (SELECT 1, 2) |> WHERE id < 30",
    f"""WITH w AS (FROM points |> WHERE v < 4) SELECT p.id, (FROM marks |> AGGREGATE max(k)) m FROM w p
    JOIN intervals i ON {BAND}""",
    "SELECT k, p.id, i FROM points p JOIN intervals USING (k) WHERE x BETWEEN lo AND hi AND k = 0",
    "SELECT K, p.id, `K` + 1 AS n FROM points p JOIN intervals USING (K) WHERE x BETWEEN lo AND hi ORDER BY K",
    "SELECT * FROM points p JOIN intervals i USING (K) WHERE p.x BETWEEN i.lo AND i.hi",
    "SELECT * FROM points p JOIN intervals i USING (k) WHERE p.x BETWEEN i.lo AND i.hi",
    "SELECT p.*, i.* FROM points p JOIN intervals i USING (k) WHERE p.x BETWEEN i.lo AND i.hi",
    "SELECT i.*, k + 1 FROM points p LEFT JOIN intervals i USING (k, v) WHERE p.x BETWEEN i.lo AND i.hi",
    "SELECT k, count(*) AS n FROM points p JOIN intervals i USING (k) WHERE x >= lo AND x <= hi GROUP BY k ORDER BY k",
    f"SELECT * FROM points p JOIN marks m USING (k) JOIN intervals i ON {BAND}",
    f"SELECT * EXCEPT (x, name) FROM points p NATURAL JOIN marks m JOIN intervals i ON {BAND}",
    f"SELECT p.* EXCEPT (x), i.hi FROM points p JOIN intervals i ON {BAND}",
    "SELECT k, name, i FROM points p JOIN marks m USING (k) LEFT JOIN intervals i USING (k) WHERE x BETWEEN lo AND hi",
    "SELECT p.id, i.i FROM points p LEFT JOIN intervals i ON p.k = i.k WHERE p.x BETWEEN i.lo AND i.hi",
    "SELECT p.id, i.i FROM points p RIGHT JOIN intervals i ON p.k = i.k WHERE p.x >= i.lo AND p.x < i.lo + 5",
    "SELECT p.id, i.i FROM points p FULL JOIN intervals i ON p.k = i.k WHERE p.x BETWEEN i.lo AND i.hi",
    """SELECT p.id, v.name FROM points p JOIN (VALUES ('a', 1, 9), ('b', 9, 30)) AS v(name, lo, hi) ON p.x
    BETWEEN lo AND hi""",
    """SELECT p.id, z.n FROM points p JOIN (SELECT k, lo, hi, name n FROM intervals JOIN marks USING (k)) z
    ON p.k = z.k AND p.x BETWEEN z.lo AND z.hi""",
)


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_is_rewritten_and_returns_the_same_rows(own: SparkSession, text: str) -> None:
    plan = Optimizer(own, FORCE).plan(text)
    assert plan.rewritten, plan.declined
    assert_same(own, text, plan)


KEPT = (  # the outer join shows rows without a match
    "SELECT p.id, i.i FROM points p LEFT JOIN intervals i ON p.k = i.k WHERE i.lo IS NULL OR p.x BETWEEN i.lo AND i.hi",
    """SELECT p.id, i.i FROM points p LEFT JOIN intervals i ON p.k = i.k WHERE p.x BETWEEN coalesce(i.lo,
    0) AND coalesce(i.hi, 99)""",
    "SELECT p.id, i.i FROM points p LEFT JOIN intervals i ON p.k = i.k WHERE p.x NOT BETWEEN i.lo AND p.v",
    "SELECT k, i.i FROM points p FULL JOIN intervals i USING (k) WHERE p.x BETWEEN i.lo AND i.hi",
    "SELECT hash(*), k FROM points p JOIN intervals i USING (k) WHERE p.x BETWEEN i.lo AND i.hi",
    "SELECT count(DISTINCT *) FROM points p JOIN intervals i USING (k) WHERE p.x BETWEEN i.lo AND i.hi",
    """SELECT k, (SELECT count(*) FROM marks m WHERE m.k >= k) FROM points p JOIN intervals i USING (k)
    WHERE x BETWEEN lo AND hi""",
)


@pytest.mark.parametrize("text", KEPT)
def test_what_stays_an_outer_join_returns_the_same_rows(own: SparkSession, text: str) -> None:
    plan = Optimizer(own, FORCE).plan(text)
    assert plan.rewritten or plan.declined
    assert_same(own, text, plan)


SELECTED = f"SELECT p.id, i.i FROM points p JOIN intervals i ON {BAND}"
STATEMENTS = (
    f"INSERT INTO hits {SELECTED}",
    f"INSERT INTO hits (i, id) SELECT i.i, p.id FROM points p JOIN intervals i ON {BAND}",
    f"INSERT OVERWRITE hits ({SELECTED})",
    f"INSERT INTO hits BY NAME {SELECTED}",
    f"INSERT INTO hits FROM points p JOIN intervals i ON {BAND} SELECT p.id, i.i",
    f"INSERT INTO hits FROM points p |> JOIN intervals i ON {BAND} |> SELECT p.id, i.i",
    f"""WITH w AS (SELECT * FROM points WHERE v > 0) INSERT INTO hits SELECT p.id, i.i FROM w p JOIN
    intervals i ON {BAND}""",
    f"FROM points p JOIN intervals i ON {BAND} INSERT INTO hits SELECT p.id, i.i WHERE p.v > 0;",
    f"""WITH w AS (SELECT * FROM points) FROM w p JOIN intervals i ON {BAND} INSERT OVERWRITE TABLE hits
    SELECT p.id, i.i""",
)


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_that_writes_rows(own: SparkSession, text: str) -> None:
    opt, found = Optimizer(own, FORCE), []
    plan = opt.plan(text)
    assert plan.rewritten, plan.declined
    for run in (own.sql, opt.sql):
        own.sql("DROP TABLE IF EXISTS hits")
        own.sql("CREATE TABLE hits (id BIGINT, i BIGINT) USING parquet")
        run(text)
        found.append(Counter(own.table("hits").collect()))
    own.sql("DROP TABLE hits")
    assert found[0] == found[1]
    assert found[0]


@pytest.mark.parametrize("head", ["CACHE TABLE held AS", "CACHE LAZY TABLE held OPTIONS ('storageLevel' 'DISK_ONLY')"])
def test_a_cached_query_sees_rows_that_come_later(own: SparkSession, head: str) -> None:
    own.sql("DROP TABLE IF EXISTS grown")
    own.sql("CREATE TABLE grown USING parquet AS SELECT * FROM intervals")
    query = SELECTED.replace("intervals i", "grown i")
    opt = Optimizer(own, FORCE)
    assert opt.plan(f"{head} {query}").rewritten
    opt.sql(f"{head} {query}")
    assert Counter(own.table("held").collect()) == Counter(own.sql(query).collect())
    own.sql("INSERT INTO grown VALUES (99, 1, -1000000, 1000000, 1), (98, 0, 20, 1000, 1)")
    assert Counter(own.table("held").collect()) == Counter(own.sql(query).collect())
    own.sql("UNCACHE TABLE held")
    own.sql("DROP VIEW held")
    own.sql("DROP TABLE grown")


def test_only_the_query_of_merge_is_rewritten(own: SparkSession) -> None:
    rest = "s ON t.id = s.id WHEN MATCHED THEN UPDATE SET i = s.i WHEN NOT MATCHED THEN INSERT *"
    plan = Optimizer(own, FORCE).plan(f"MERGE INTO hits t USING ({SELECTED}) {rest}")
    assert plan.rewriting is not None
    assert plan.rewriting.startswith("MERGE INTO hits t USING (SELECT")
    assert plan.rewriting.endswith(f"\n) {rest}")
    assert Counter(own.sql(plan.rewritten_query).collect()) == Counter(own.sql(plan.query).collect())


def test_a_view_with_lists_of_columns_is_read(own: SparkSession) -> None:
    inner = f"SELECT p.id, i.i FROM points p JOIN intervals i ON {BAND}"
    lists = f"WITH w(a, b) AS ({inner}), x (c) AS (SELECT b FROM w) SELECT c FROM x"
    own.sql(f"CREATE OR REPLACE TEMPORARY VIEW listed AS {lists}")
    text = "SELECT c, count(*) AS n FROM listed GROUP BY c"
    plan = Optimizer(own, FORCE).plan(text)
    assert plan.rewritten, plan.declined
    assert_same(own, text, plan)


def test_lateral_with_all_columns_of_the_nearest_row(own: SparkSession) -> None:
    picked = "SELECT * FROM intervals i WHERE i.k = p.k AND i.lo <= p.x ORDER BY i.lo DESC LIMIT 1"
    for text in (
        f"SELECT p.id, l.* FROM points p, LATERAL ({picked}) l",
        f"SELECT p.id, l.hi FROM points p LEFT JOIN LATERAL ({picked}) l ON true",
    ):
        plan = Optimizer(own, FORCE).plan(text)
        assert plan.rewritten, plan.declined
        assert_same(own, text, plan)


def test_joins_that_no_rule_reads_have_a_reason(own: SparkSession) -> None:
    for text, reason in (
        ("SELECT p.id FROM points p JOIN marks m ON p.k = m.k", "JOIN has an equality"),
        ("SELECT p.id FROM points p CROSS JOIN marks m", "CROSS JOIN has no condition"),
        ("SELECT p.id FROM points p LEFT JOIN intervals i USING (k) WHERE i IS NULL OR x BETWEEN lo AND hi", "an OR"),
    ):
        declined = Optimizer(own, FORCE).plan(text).declined
        assert any(reason in one.reason and one.place for one in declined), declined
    off = Optimizer(own, Options(force=True, disabled_rules=("band_join",))).plan(QUERIES[0])
    assert "disabled_rules" in off.declined[0].reason
