"""A computed relation is sampled so that each row of the sample has the values that it has among all rows."""

from __future__ import annotations

import pytest

from dovetail.planner.logical import Derived
from dovetail.planner.logical.sampled_side import sampled_side
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.sql.to_sql import to_sql

SOME = "rand(1) < 0.03125D"
OF_A = "pmod(xxhash64(a), 32) = (SELECT pmod(xxhash64(a), 32) FROM t LIMIT 1)"
SAMPLED = {  # a query, and the condition that takes some of its rows
    "SELECT a, b + 1 AS c FROM t": SOME,
    "SELECT a FROM t WHERE b > 1": f"b > 1 AND {SOME}",
    "SELECT a, min(b) FROM t GROUP BY a": OF_A,
    "SELECT a, min(b) FROM t JOIN u USING (c) GROUP BY a": "pmod(xxhash64(a), 32) = 0",
    "SELECT x.a, min(b) FROM t AS x GROUP BY x.a": OF_A.replace("(a)", "(x.a)").replace("t LIMIT", "t AS x LIMIT"),
    "SELECT a, b, lead(b) OVER (PARTITION BY a ORDER BY b) AS c FROM t": OF_A,
    "SELECT lead(b) OVER (PARTITION BY t.a, d ORDER BY b) - b, lag(b) OVER (PARTITION BY t.a, d ORDER BY b) FROM t "
    "WHERE b > 1": f"b > 1 AND {OF_A.replace('(a)', '(t.a, d)')}",
    "SELECT a, b FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1": OF_A,
    "SELECT over, coverage FROM t": SOME,
}
WHOLE = """
SELECT lead(b) OVER (ORDER BY b) AS c FROM t
SELECT lead(b) OVER (PARTITION BY a + 1 ORDER BY b) AS c FROM t
SELECT lead(b) OVER (PARTITION BY a ORDER BY b) AS c, max(b) OVER (PARTITION BY d) AS m FROM t
SELECT lead(b) OVER (PARTITION BY a ORDER BY b) AS c, max(b) OVER () AS m FROM t
SELECT lead(b) OVER w AS c FROM t WINDOW w AS (PARTITION BY a ORDER BY b)
SELECT a, lead(min(b)) OVER (PARTITION BY a ORDER BY min(b)) AS c FROM t GROUP BY a
SELECT a, min(b) FROM t GROUP BY a + 1
SELECT DISTINCT a, b FROM t
""".strip().splitlines()


def _sample(query: str) -> str | None:
    tree, _ = from_sql(query)
    found = sampled_side(Derived(tree, "q", (), "AS q"), {}, 32)
    return " ".join(to_sql(found.query).split()) if isinstance(found, Derived) else None


@pytest.mark.parametrize("query", SAMPLED)
def test_what_decides_together_is_taken_together(query: str) -> None:
    assert f"WHERE {SAMPLED[query]}" in (_sample(query) or "")


@pytest.mark.parametrize("query", WHOLE)
def test_what_a_sample_would_change_is_not_sampled(query: str) -> None:
    assert _sample(query) is None
