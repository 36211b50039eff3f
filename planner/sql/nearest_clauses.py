"""Finds the words of a join that pick the nearest rows: ASOF, MATCH_CONDITION, and NEAREST BY.

t ASOF JOIN q MATCH_CONDITION (t.ts >= q.ts) ON t.k = q.k       Spark's and Snowflake's as-of join
t ASOF LEFT JOIN q ON t.k = q.k AND t.ts >= q.ts                DuckDB's
"""

from __future__ import annotations

from planner.expr.tokens import Tokens

_KINDS = ("INNER", "LEFT", "OUTER")


def find_asof(t: Tokens, join: int) -> int | None:
    """Find the index of the ASOF of the JOIN at ``join``; None if it has none, or if ASOF may be an alias."""
    i = join
    while i and t[i - 1].word in _KINDS:
        i -= 1
    if not i or t[i - 1].word != "ASOF":
        return None
    spark = i == join and find_match_condition(t, join, len(t)) is not None
    return i - 1 if spark or not _may_be_alias(t, i - 1) else None


def find_join(t: Tokens, asof: int, hi: int) -> int | None:
    """Find the index of the JOIN that an ASOF may belong to, as in ``ASOF LEFT JOIN``; None if there is none."""
    i = asof + 1
    while t.word(i, hi) in _KINDS:
        i += 1
    return i if t.word(i, hi) == "JOIN" else None


def _may_be_alias(t: Tokens, asof: int) -> bool:
    """Whether a word may be the alias of the relation before it: the relation has none, and no ON follows it."""
    if t.word(asof - 1) in _KINDS:
        return False
    i = asof
    while i and t[i - 1].word not in (",", "JOIN", "FROM", "(", "LATERAL"):
        if t[i - 1].word in ("ON", "USING", "MATCH_CONDITION"):
            return False
        i = t.match[i - 1] if t[i - 1].word == ")" else i - 1
    end = t.match[i] + 1 if t[i].word == "(" else i + 1
    while t.word(end) == ".":
        end += 2
    named = [t[n] for n in range(end, asof) if n > end or t[n].word != "AS"]
    return len(named) != 1 or not named[0].is_name


def find_match_condition(t: Tokens, join: int, hi: int) -> int | None:
    """Find the index of the MATCH_CONDITION of the JOIN at ``join``, before ``hi``; None if it has none."""
    for i in t.top(join + 1, hi):
        if t[i].word in ("JOIN", ")"):
            return None
        if t[i].word == "MATCH_CONDITION" and t.word(i + 1, hi) == "(":
            return i
    return None


def find_nearest_by(t: Tokens, join: int, hi: int) -> tuple[int, int] | None:
    """Find the first tokens of ``EXACT NEAREST 3 BY DISTANCE`` of the JOIN at ``join``, and of its expression.

    None if it has none before ``hi``.  None of its words is reserved, so ``exact`` and ``nearest`` may be aliases.
    """
    for i in t.top(join + 1, hi):
        if t[i].word in ("JOIN", ")"):
            return None
        if t[i].word in ("EXACT", "APPROX") and t.word(i + 1, hi) == "NEAREST":
            by = i + 2 + t.word(i + 2, hi).isdecimal()
            if t.word(by, hi) == "BY" and t.word(by + 1, hi) in ("DISTANCE", "SIMILARITY"):
                return i, by + 2
    return None
