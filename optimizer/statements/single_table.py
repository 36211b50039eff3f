"""Statements over at most one table, found by their text: no rule rewrites them, so they go to Spark without planning.

A text counts only if no word of it could be a join or a second query, in strings and comments as well: whatever they
hide, they cannot hide that.
"""

from __future__ import annotations

import re

_COMMAND = re.compile(
    r"\s*(?:ADD|ALTER|ANALYZE|CLEAR|DESC|DESCRIBE|DROP|LIST|MSCK|REFRESH|RESET|SET|SHOW|TRUNCATE|UNCACHE|USE)\b",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"\b(?:JOIN|LATERAL|TABLE|VALUES|UNION|INTERSECT|EXCEPT|MINUS|PIVOT|UNPIVOT|SELECT\b.*\bSELECT|FROM\b.*\bFROM)\b"
    r"|\|>|/\*\+",
    re.IGNORECASE | re.DOTALL,
)
_CLAUSES = "WHERE|GROUP|HAVING|ORDER|SORT|CLUSTER|DISTRIBUTE|LIMIT|OFFSET|WINDOW|QUALIFY"
_FROM = re.compile(
    rf"\bFROM\s+([^\W\d]\w*(?:\.[^\W\d]\w*)?)(?:\s+(?:AS\s+)?(?!(?:{_CLAUSES})\b)[^\W\d]\w*)?\s*"
    rf"(?:;?\s*$|\b(?:{_CLAUSES})\b)",
    re.IGNORECASE,
)


def find_single_table(text: str) -> str | None:
    """Return the one table that a statement reads, empty if it reads none; None if it may read more.

    >>> find_single_table("SELECT a, count(*) FROM db.t AS x WHERE b > 0 GROUP BY a"), find_single_table("SHOW TABLES")
    ('db.t', '')
    >>> find_single_table("SELECT * FROM t, u"), find_single_table("SELECT * FROM (TABLE t)")
    (None, None)
    """
    if _MORE.search(text):
        return None
    if _COMMAND.match(text):
        return ""
    if not re.match(r"\s*SELECT\b", text, re.IGNORECASE):
        return None
    if not re.search(r"\bFROM\b", text, re.IGNORECASE):
        return ""
    found = _FROM.search(text)
    return found[1] if found else None
