"""Compares and merges pieces of a condition by their canonical form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from dovetail.planner.conditions.compared import TURNED
from dovetail.planner.conditions.connectives import bare
from dovetail.planner.expr import HOLE
from dovetail.planner.expr.functions import ROW_FUNCTIONS
from dovetail.planner.expr.tokens import Tokens, tokenize

COMPARISONS = frozenset(("<", "<=", ">", ">=", "=", "==", "<>", "!=", "<=>"))
PREDICATES = frozenset("NOT IN IS LIKE ILIKE RLIKE REGEXP BETWEEN ESCAPE ANY SOME ALL SIMILAR EXISTS ! !> !<".split())
_CANONICAL = {"==": "=", "!=": "<>"}
_WITH_EQUAL = {"<": "<=", ">": ">=", "<=": "<=", ">=": ">="}


@dataclass(frozen=True)
class Piece:
    """A piece of a condition: ``kind`` is AND or OR over ``parts``, TRUE, FALSE, or empty for other SQL.

    ``at`` is where it begins in the text of the condition.
    """

    kind: str
    text: str
    at: int
    parts: tuple[Piece, ...] = ()


def merge_branches(branches: list[Piece]) -> list[Piece]:
    """Merge ``a < b OR a = b`` into ``a <= b``, if it contains no call."""
    found: list[Piece] = []
    of_these: dict[frozenset[str], list[int]] = {}  # comparisons of two operands, by their places in ``found``
    for branch in branches:
        own = None if branch.kind or "(" in branch.text else comparison(branch.text)
        if own is None or own[0] == own[2]:
            found.append(branch)
            continue
        places = of_these.setdefault(frozenset((own[0], own[2])), [])
        for n in places:
            if (text := _one_comparison(found[n].text, branch.text)) is not None:
                found[n] = Piece("", text, found[n].at)
                break
        else:
            places.append(len(found))
            found.append(branch)
    return found


def _one_comparison(one: str, other: str) -> str | None:
    """Merge two comparisons of the same operands into one; None if that is not possible."""
    a, b = comparison(one), comparison(other)
    for first, second in ((a, b), (b, a)):
        if first and second and second[1] in ("=", "==") and first[1] in ("<", ">", "<=", ">="):
            left, sign, right = first[3]
            return f"{left} {_WITH_EQUAL[sign]} {right}"
    return None


def bounds(piece: Piece) -> tuple[Piece, ...]:
    """``x BETWEEN a AND b`` as its two comparisons, if it contains no call; any other piece as it is."""
    t = tokenize(piece.text)
    marks = operators(t, 0, len(t))
    if piece.kind or "(" in piece.text or [t[i].word for i in marks] != ["BETWEEN"]:
        return (piece,)
    between = marks[0]
    end = next(i for i in range(between, len(t)) if t[i].word == "AND")
    value, low, high = t.slice(0, between), t.slice(between + 1, end), t.slice(end + 1, len(t))
    return Piece("", f"{value} >= {low}", piece.at), Piece("", f"{value} <= {high}", piece.at)


def operators(t: Tokens, lo: int, hi: int) -> list[int]:
    """Find the comparisons and the words of predicates in a range of tokens, outside brackets and CASE … END."""
    return [i for i in bare(t, lo, hi) if t[i].word in COMPARISONS or t[i].word in PREDICATES]


@lru_cache(maxsize=4096)
def comparison(text: str) -> tuple[str, str, str, tuple[str, str, str]] | None:
    """Parse a comparison: its canonical operands and operator, and the same as written."""
    t = tokenize(text)
    marks = operators(t, 0, len(t))
    if len(marks) != 1 or not 0 < marks[0] < len(t) - 1 or t[marks[0]].word not in COMPARISONS:
        return None
    left, right = t.slice(0, marks[0]), t.slice(marks[0] + 1, len(t))
    sign = t[marks[0]].word
    return words(left), sign, words(right), (left, sign, right)


def not_null(text: str) -> str:
    """Return the canonical form of x for ``x IS NOT NULL``; empty for any other condition."""
    return _null_tested(text, ["IS", "NOT", "NULL"])


def is_null(text: str) -> str:
    """Return the canonical form of x for ``x IS NULL``; empty for any other condition."""
    return _null_tested(text, ["IS", "NULL"])


def _null_tested(text: str, test: list[str]) -> str:
    t = tokenize(text)
    at = len(t) - len(test)
    marks = operators(t, 0, len(t))
    is_test = at > 0 and [x.word for x in t.items[at:]] == test and len(marks) == len(test) - 1
    return words(t.slice(0, at)) if is_test else ""


def key(piece: Piece) -> str:
    """Return a canonical form in which equivalent pieces are often equal: blanks and operand order are normalized."""
    if not piece.kind and (found := comparison(piece.text)):
        left, sign, right, _ = found
        sign = _CANONICAL.get(sign, sign)
        return f"{right} {TURNED.get(sign, sign)} {left}" if left > right else f"{left} {sign} {right}"
    return words(piece.text)


@lru_cache(maxsize=4096)
def words(text: str) -> str:
    """Normalize blanks and comments; a word that can be a name keeps its case, which may be significant."""
    t = tokenize(text)
    return " ".join(x.text if x.is_name else x.word or repr(x.text) for x in t.items)


def loose(text: str) -> list[str]:
    """Split SQL into words, without parentheses."""
    return [word for word in words(text).split(" ") if word not in "()"]


def deterministic(key: str) -> bool:
    """Whether a factor contains only immutable functions, and no subquery."""
    if HOLE in key:
        return False
    t = tokenize(key)
    return all(
        t[i].word != "(" or not i or not t[i - 1].is_name or t[i - 1].word in ROW_FUNCTIONS or t[i - 1].word == "IN"
        for i in range(len(t))
    )
