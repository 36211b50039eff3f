"""Finds the query of a statement: behind INSERT, CREATE TABLE … AS or CACHE TABLE, in USING of MERGE."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from dovetail.planner.errors import Unsupported
from dovetail.planner.expr.tokens import Tokens
from dovetail.planner.sql.reader import QUERY_STARTS

_WAYS_OUT = {
    "EXPLAIN": "opt.plan(query).explain() shows the plan of a query, and .sql() the statement that Spark runs",
    "DELETE": "write a join of its condition into a table, and compare with that",
    "UPDATE": "write a join of its condition into a table, and compare with that",
}


@dataclass(frozen=True)
class StatementParts:
    """Token ranges of a statement: its query, and the words before the query that are none of it (INSERT INTO t).

    ``prefix`` stands inside the query behind a WITH or FROM that comes first: ``WITH a AS (…) INSERT INTO t SELECT …``.
    """

    prefix: tuple[int, int]
    query: tuple[int, int]


def find_query(t: Tokens, hi: int) -> StatementParts:
    """Find the query of the statement ``[0, hi)``.  Raises ``Unsupported`` for one without a query that is read."""
    first = t[0].word
    if first in QUERY_STARTS or first == "(":
        return StatementParts(_insert_behind(t, hi), (0, hi))
    match first:
        case "INSERT":
            start = _insert_query(t, 0, hi)
        case "CREATE" | "REPLACE":
            start = _created_query(t, hi)
        case "CACHE":
            start = _cached_query(t, hi)
        case "MERGE":
            return _merged_query(t, hi)
        case _:
            name = first or "this"
            way_out = f"; {_WAYS_OUT[first]}" if first in _WAYS_OUT else ""
            raise Unsupported(f"{name} is not a query{way_out}", t.place(t[0].start))
    if start is None:
        raise Unsupported(f"this {first} has no query to optimize", t.place(t[0].start))
    return StatementParts((0, start), (start, hi))


def _insert_behind(t: Tokens, hi: int) -> tuple[int, int]:
    """The INSERT INTO behind WITH or FROM; an empty range where there is none."""
    tops = t.top(0, hi)
    if t[0].word == "WITH":  # the statement follows the parenthesis of the last definition
        behind = next((b for a, b in pairwise(tops) if t[a].word == "(" and t[b].word not in (",", "AS", "(")), hi)
        if t.word(behind, hi) in ("MERGE", "DELETE", "UPDATE"):
            raise Unsupported(
                f"WITH before {t[behind].word} is not supported; write it into the query of the statement",
                t.place(t[behind].start),
            )
    elif t[0].word != "FROM":
        return 0, 0
    found = [i for i in tops if t[i].word == "INSERT" and t.word(i + 1, hi) in ("INTO", "OVERWRITE")]
    if not found:
        return 0, 0
    if len(found) > 1:
        raise Unsupported(
            "several INSERTs behind one FROM are not supported; write a statement for each of them",
            t.place(t[found[1]].start),
        )
    start = _insert_query(t, found[0], hi)
    if start is None:
        raise Unsupported("this INSERT has no query to optimize", t.place(t[found[0]].start))
    return found[0], start


def _insert_query(t: Tokens, lo: int, hi: int) -> int | None:
    """Where the query of an INSERT begins."""
    for i in t.top(lo + 2, hi):
        word = t[i].word
        if word in ("SELECT", "WITH", "FROM") or (word == "(" and t.match[i] == hi - 1 and _opens_query(t, i)):
            return i
    return None


def _created_query(t: Tokens, hi: int) -> int | None:
    """Where the query of CREATE TABLE … AS or CREATE VIEW … AS begins."""
    for i in t.top(1, hi):
        if t[i - 1].word == "AS" and (t[i].word in ("SELECT", "WITH", "FROM") or _opens_query(t, i)):
            return i if any(t[j].word in ("TABLE", "VIEW") for j in t.top(1, i)) else None
    return None


def _cached_query(t: Tokens, hi: int) -> int | None:
    """Where the query of CACHE [LAZY] TABLE t [OPTIONS (…)] [AS] begins."""
    at = 1 + (t.word(1, hi) == "LAZY")
    if t.word(at, hi) != "TABLE":
        return None
    for i in t.top(at + 2, hi):
        if t[i].word in ("SELECT", "WITH", "FROM") or _opens_query(t, i):
            return i
    return None


def _merged_query(t: Tokens, hi: int) -> StatementParts:
    """The query in parentheses behind USING of MERGE."""
    using = next((i for i in t.top(1, hi) if t[i].word == "USING"), hi)
    if using + 1 < hi and _opens_query(t, using + 1):
        return StatementParts((0, using + 2), (using + 2, t.match[using + 1]))
    raise Unsupported(
        "MERGE reads a table in USING, and its own join stays as written; only a query in USING (…) is rewritten",
        t.place(t[min(using + 1, hi - 1)].start),
    )


def _opens_query(t: Tokens, i: int) -> bool:
    """Whether token ``i`` is a parenthesis around a query."""
    while t.word(i) == "(":
        i += 1
        if t.word(i) in ("SELECT", "WITH", "FROM"):
            return True
    return False
