"""Finds the MATCH_CONDITION of an as-of join."""

from __future__ import annotations

from planner.expr.tokens import Tokens


def find_match_condition(t: Tokens, join: int, hi: int) -> int | None:
    """Where the MATCH_CONDITION of the JOIN at ``join`` stands, before ``hi``; None where it has none."""
    for i in t.top(join + 1, hi):
        if t[i].word in ("JOIN", ")"):
            return None
        if t[i].word == "MATCH_CONDITION" and t.word(i + 1, hi) == "(":
            return i
    return None
