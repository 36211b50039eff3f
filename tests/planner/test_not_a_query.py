"""What is more than a query is told from its words: analyzing it would run it."""

from __future__ import annotations

import pytest

from dovetail.planner.sql.reader import not_a_query

CTE = "WITH a AS (SELECT 1 AS x)"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (f"{CTE} UPDATE t SET x = 1 WHERE x IN (SELECT x FROM a)", "UPDATE"),
        (f"{CTE} DELETE FROM t WHERE x IN (SELECT x FROM a)", "DELETE"),
        (f"{CTE} MERGE INTO t USING a ON t.x = a.x WHEN MATCHED THEN DELETE", "MERGE"),
        (f"{CTE} INSERT INTO t SELECT * FROM a", "INSERT"),
        (f"{CTE} INSERT OVERWRITE t SELECT * FROM a", "INSERT"),
        ("FROM a INSERT INTO t SELECT *", "INSERT"),
        (f"{CTE}, b(y) AS (SELECT 1) FROM b INSERT OVERWRITE t SELECT *", "INSERT"),
        ("CREATE VIEW v AS SELECT 1", "CREATE"),
        ("", "an empty text"),
    ],
)
def test_what_writes(text: str, word: str) -> None:
    assert not_a_query(text) == word


@pytest.mark.parametrize(
    "text",
    [
        f"{CTE} SELECT * FROM a",
        "(SELECT 1) UNION (SELECT 2)",
        "FROM a SELECT x",
        "VALUES (1)",
        "TABLE a",
        "SELECT x AS update, y AS delete FROM a",
        f"{CTE} SELECT (x) delete FROM a",
        f"{CTE}, delete AS (SELECT 2 AS y) (SELECT * FROM a)",
        f"{CTE} SELECT update FROM a, set",
        "SELECT 'DELETE FROM t' AS text, (SELECT 1) AS insert -- INSERT INTO t",
    ],
)
def test_what_reads(text: str) -> None:
    assert not_a_query(text) is None
