"""Finds the words of a join that pick the nearest rows: ASOF, MATCH_CONDITION, and NEAREST BY."""

from __future__ import annotations

from dovetail.planner.expr.tokens import Tokens


def find_asof(t: Tokens, join: int) -> int | None:
    """Find the index of the ASOF of the JOIN at ``join``; None if it has none, so that a word ASOF is an alias."""
    has_asof = join and t[join - 1].word == "ASOF" and find_match_condition(t, join, len(t)) is not None
    return join - 1 if has_asof else None


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
