"""When two pieces of a condition say the same, and what two of them say together."""

from __future__ import annotations

from dataclasses import dataclass

from planner.conditions.connectives import bare
from planner.expr import HOLE
from planner.expr.functions import ROW_FUNCTIONS
from planner.expr.tokens import tokenize

COMPARISONS = frozenset(("<", "<=", ">", ">=", "=", "==", "<>", "!=", "<=>"))
PREDICATES = frozenset("NOT IN IS LIKE ILIKE RLIKE REGEXP BETWEEN ESCAPE ANY SOME ALL SIMILAR EXISTS ! !> !<".split())
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "==": "=", "<>": "<>", "!=": "<>", "<=>": "<=>"}
_WITH_EQUAL = {"<": "<=", ">": ">=", "<=": "<=", ">=": ">="}


@dataclass(frozen=True)
class Said:
    """A piece of a condition: ``kind`` is AND or OR over ``parts``, TRUE, FALSE, or nothing for words of their own.

    ``at`` is where it begins in the text of the condition.
    """

    kind: str
    text: str
    at: int
    parts: tuple[Said, ...] = ()


def merged(branches: list[Said]) -> list[Said]:
    """``a < b OR a = b`` as ``a <= b``, where nothing is called."""
    found: list[Said] = []
    for branch in branches:
        for n, before in enumerate(found):
            if (text := _one_comparison(before, branch)) is not None:
                found[n] = Said("", text, before.at)
                break
        else:
            found.append(branch)
    return found


def _one_comparison(one: Said, other: Said) -> str | None:
    if one.kind or other.kind or "(" in one.text or "(" in other.text:
        return None
    a, b = comparison(one.text), comparison(other.text)
    if a is None or b is None:
        return None
    for first, second in ((a, b), (b, a)):
        if second[1] not in ("=", "==") or first[1] not in ("<", ">", "<=", ">="):
            continue
        if {first[0], first[2]} == {second[0], second[2]} and first[0] != first[2]:
            left, sign, right = first[3]
            return f"{left} {_WITH_EQUAL[sign]} {right}"
    return None


def comparison(text: str) -> tuple[str, str, str, tuple[str, str, str]] | None:
    """The operands of one comparison in words for comparing, and the sign between; then the same as written."""
    t = tokenize(text)
    marks = [i for i in bare(t, 0, len(t)) if t[i].word in COMPARISONS or t[i].word in PREDICATES]
    if len(marks) != 1 or not 0 < marks[0] < len(t) - 1 or t[marks[0]].word not in _TURNED:
        return None
    left, right = t.slice(0, marks[0]), t.slice(marks[0] + 1, len(t))
    sign = t[marks[0]].word
    return words(left), sign, words(right), (left, sign, right)


def not_null(text: str) -> str:
    """What ``x IS NOT NULL`` says of x, in words for comparing; nothing for any other condition."""
    t = tokenize(text)
    behind = [t[i].word for i in range(max(len(t) - 3, 0), len(t))]
    marks = [i for i in bare(t, 0, len(t)) if t[i].word in COMPARISONS or t[i].word in PREDICATES]
    return words(t.slice(0, len(t) - 3)) if behind == ["IS", "NOT", "NULL"] and len(marks) == 2 else ""


def key(said: Said) -> str:
    """A spelling in which two pieces that say the same are often equal: blanks, and which operand stands first."""
    if not said.kind and (found := comparison(said.text)):
        left, sign, right, _ = found
        if left > right:
            left, sign, right = right, _TURNED[sign], left
        return f"{left} {_TURNED[_TURNED[sign]]} {right}"
    return words(said.text)


def words(text: str) -> str:
    """A text without its blanks and comments; a word that can be a name keeps its case, which may count."""
    t = tokenize(text)
    return " ".join(x.text if x.is_name else x.word or repr(x.text) for x in t.items)


def loose(text: str) -> list[str]:
    """The words of a text without its parentheses."""
    return [word for word in words(text).split(" ") if word not in "()"]


def deterministic(key: str) -> bool:
    """Whether a factor calls nothing but what looks at its arguments alone, and holds no subquery."""
    if HOLE in key:
        return False
    t = tokenize(key)
    return all(
        t[i].word != "(" or not i or not t[i - 1].is_name or t[i - 1].word in ROW_FUNCTIONS or t[i - 1].word == "IN"
        for i in range(len(t))
    )
