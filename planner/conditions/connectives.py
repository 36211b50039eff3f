"""Parses AND, OR and NOT of a condition into a tree over ranges of its tokens.

Spark's grammar is followed where it matters: OR binds loosest, then AND, then NOT; a comparison binds tighter than
``IN``, ``BETWEEN``, ``LIKE`` and ``IS``, so that ``a = b IS TRUE`` is ``(a = b) IS TRUE``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dovetail.planner.expr import HOLE
from dovetail.planner.expr.tokens import Tokens


class Part(NamedTuple):
    """Tokens ``[lo, hi)`` of a condition: ``kind`` is AND, OR or NOT over ``parts``, or empty for a leaf."""

    kind: str
    lo: int
    hi: int
    parts: tuple[Part, ...] = ()


def connectives(t: Tokens, lo: int, hi: int) -> Part:
    """Parse a condition down to its leaves.  Parentheses around a condition are ignored."""
    lo, hi = inside(t, lo, hi)
    cuts = cuts_at(t, lo, hi, "OR")
    kind = "OR"
    if not cuts:
        cuts, kind = cuts_at(t, lo, hi, "AND"), "AND"
    if cuts:
        bounds = zip([lo, *(c + 1 for c in cuts)], [*cuts, hi], strict=True)
        return Part(kind, lo, hi, tuple(connectives(t, a, b) for a, b in bounds))
    if t.word(lo, hi) in ("NOT", "!") and hi - lo > 1:
        return Part("NOT", lo, hi, (connectives(t, lo + 1, hi),))
    return Part("", lo, hi)


def inside(t: Tokens, lo: int, hi: int) -> tuple[int, int]:
    """Strip the outer parentheses of a range; those of a row ``(a, b)`` or of a subquery stay."""
    while hi - lo > 2 and t.word(lo) == "(" and t.match[lo] == hi - 1:
        alone = hi - lo == 3 and t.word(lo + 1).startswith(HOLE.upper())
        if alone or any(t[i].word == "," for i in t.top(lo + 1, hi - 1)):
            break
        lo, hi = lo + 1, hi - 1
    return lo, hi


def bare(t: Tokens, lo: int, hi: int) -> Iterator[int]:
    """Yield the tokens of a range outside brackets and CASE … END, and not after a dot."""
    case = 0
    for i in t.top(lo, hi):
        word = t[i].word if i == lo or t[i - 1].word != "." else ""
        if word == "CASE":
            case += 1
        if not case:
            yield i
        if word == "END" and case:
            case -= 1


def cuts_at(t: Tokens, lo: int, hi: int, word: str) -> list[int]:
    """Find the positions of a connective in a range, outside brackets; the AND of BETWEEN does not count."""
    found, between = [], 0
    for i in bare(t, lo, hi):
        if i > lo and t[i - 1].word == ".":
            continue
        match t[i].word:
            case "BETWEEN":
                between += 1
            case "AND" if between:
                between -= 1
            case w if w == word:
                found.append(i)
    return found
