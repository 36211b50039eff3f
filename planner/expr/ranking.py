"""Reads ranking functions with their windows: ``row_number() OVER (PARTITION BY a ORDER BY b DESC, c)``.

On tokens, since sqlglot prints the order of NULLs otherwise than it is written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.planner.expr.scalar import Scalar
from dovetail.planner.expr.tokens import Tokens, tokenize

RANKINGS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
_FIRST_VALUES = ("FIRST_VALUE", "FIRST")


@dataclass(frozen=True)
class SortKey:
    """An expression by which rows are sorted."""

    expression: Scalar
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Ranking:
    """A ranking function in lower case, where it restarts, its sort keys, and its alias."""

    function: str
    partition: tuple[Scalar, ...]
    order: tuple[SortKey, ...]
    name: str


def read_ranking(item: Scalar) -> Ranking | None:
    """Read an item that is a ranking function and nothing else; None for any other."""
    if item.plans or "over" not in item.text.lower():
        return None
    t = tokenize(item.text)
    return None if t.word(2) != ")" else _ranking(t, RANKINGS, item)


def read_first_value(item: Scalar) -> Ranking | None:
    """Read an item ``first_value(x) OVER (PARTITION BY … ORDER BY …)`` as the ranking whose first row it is of."""
    if item.plans or "over" not in item.text.lower():
        return None
    t = tokenize(item.text)
    plain = (
        len(t) > 2
        and t[1].word == "("
        and not any(t[i].text == "," or t[i].word == "NULLS" for i in t.top(2, t.match[1]))
    )
    found = _ranking(t, _FIRST_VALUES, item) if plain else None
    return found and replace(found, function="row_number")


def _ranking(t: Tokens, functions: tuple[str, ...], item: Scalar) -> Ranking | None:
    """An item that is one of these functions over a window, and its alias."""
    end = _end(t, functions)
    behind = range(end + (t.word(end) == "AS"), len(t))
    if not end or len(behind) > 1 or any(not t[i].is_name for i in behind) or (t.word(end) == "AS" and not behind):
        return None
    parts = _window(t, t.match[1] + 3, end - 1, item)
    return parts and Ranking(t[0].word.lower(), *parts, t[behind[0]].text if behind else "")


def read_ranking_test(test: Scalar) -> tuple[Ranking, str, int] | None:
    """Read a condition that compares a ranking function with a number: ``row_number() OVER (…) <= 3``."""
    if test.plans or "over" not in test.text.lower():
        return None
    t = tokenize(test.text)
    end = _end(t, RANKINGS) if t.word(2) == ")" else 0
    if not end or len(t) != end + 2 or not t[end + 1].text.isdigit():
        return None
    parts = _window(t, 5, end - 1, test)
    return parts and (Ranking(t[0].word.lower(), *parts, ""), t[end].word, int(t[end + 1].text))


def _end(t: Tokens, functions: tuple[str, ...]) -> int:
    """Where a text's first call, of one of these functions, ends with its window; 0 if it begins with no such call."""
    if len(t) < 6 or t[0].word not in functions or t[1].word != "(":
        return 0
    over = t.match[1] + 1
    return t.match[over + 1] + 1 if t.word(over) == "OVER" and t.word(over + 1) == "(" else 0


def is_windowed(item: Scalar) -> bool:
    """Whether an expression may have a window."""
    t = tokenize(item.text)
    return any(t[i].word == "OVER" for i in range(len(t)))


def _window(t: Tokens, lo: int, hi: int, item: Scalar) -> tuple[tuple[Scalar, ...], tuple[SortKey, ...]] | None:
    """Read ``PARTITION BY … ORDER BY …``; None for a frame, a name and the other spellings of Hive."""
    tops = t.top(lo, hi)
    heads = {i: t[i].word.partition(" ")[0] for i in tops}  # PARTITION BY is one token
    order = next((i for i in tops if heads[i] == "ORDER"), hi)
    if any(word in ("ROWS", "RANGE", "DISTRIBUTE", "SORT", "CLUSTER") for word in heads.values()):
        return None
    partition: tuple[Scalar, ...] = ()
    if lo < order:
        if heads[lo] != "PARTITION":
            return None
        partition = tuple(Scalar(t.slice(a, b), (), item.place) for a, b in t.split(lo + 1, order))
    if order == hi:
        return partition, ()
    return partition, tuple(_sort_key(t, a, b, item) for a, b in t.split(order + 1, hi))


def sort_key(expression: Scalar, direction: str) -> SortKey:
    """A sort key with the words behind it: ``DESC NULLS LAST``."""
    return SortKey(expression, *read_direction(direction))


def read_direction(direction: str) -> tuple[bool, bool]:
    """Whether the words behind a sort key put great values first, and NULLs."""
    words = direction.upper().split()
    descending = "DESC" in words
    return descending, words[-1] == "FIRST" if "NULLS" in words else not descending


def direction_start(t: Tokens, lo: int, hi: int) -> int:
    """Where ``[ASC | DESC] [NULLS FIRST | NULLS LAST]`` begins behind a sort key."""
    end = hi
    if end - lo > 2 and t.word(end - 2) == "NULLS" and t.word(end - 1) in ("FIRST", "LAST"):
        end -= 2
    if end - lo > 1 and t.word(end - 1) in ("ASC", "DESC"):
        end -= 1
    return end


def _sort_key(t: Tokens, lo: int, hi: int, item: Scalar) -> SortKey:
    end = direction_start(t, lo, hi)
    return sort_key(Scalar(t.slice(lo, end), (), item.place), t.slice(end, hi))
