"""Finds references in the tokens of SQL, even if sqlglot cannot parse it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dovetail.planner.expr.scalar import ColumnRef
from dovetail.planner.expr.tokens import Tokens, tokenize


def column_refs(text: str) -> tuple[ColumnRef, ...]:
    """The references in an expression."""
    t = tokenize(text)
    return tuple(ColumnRef(ref.parts, t.slice(ref.start, ref.end)) for ref in references_in(t))


def only_reference(text: str) -> ColumnRef | None:
    """Return the reference if the expression is one, in parentheses or not; None otherwise."""
    t = tokenize(text)
    lo, hi = 0, len(t)
    while lo < hi and t[lo].word == "(" and t.match[lo] == hi - 1:
        lo, hi = lo + 1, hi - 1
    found = list(references_in(t, lo, hi))
    if len(found) != 1 or (found[0].start, found[0].end) != (lo, hi):
        return None
    return ColumnRef(found[0].parts, t.slice(lo, hi))


def replace_references(text: str, substitute: Callable[[ColumnRef], str | None]) -> str:
    """Replace the references of an expression for which ``substitute`` returns SQL."""
    t = tokenize(text)
    for ref in reversed(list(references_in(t))):
        if (new := substitute(ColumnRef(ref.parts, t.slice(ref.start, ref.end)))) is not None:
            text = text[: t[ref.start].start] + new + text[t[ref.end - 1].end :]
    return text


@dataclass(frozen=True)
class Reference:
    """Names with dots between them, from token ``start`` up to token ``end``; a last part ``*`` is a star.

    One name alone may be something else than a column: a type, a unit, a keyword.
    """

    start: int
    end: int
    parts: tuple[str, ...]


def references_in(t: Tokens, lo: int = 0, hi: int | None = None) -> Iterator[Reference]:
    """The references between two tokens, but for calls, variables of lambdas, and names behind AS."""
    hi = len(t) if hi is None else hi
    variables = set(_variables(t, lo, hi))
    at = lo
    while at < hi:
        if not t[at].is_name:
            at += 1
            continue
        start, parts = at, [t[at].text]
        at += 1
        while t.word(at, hi) == "." and at + 1 < hi and (t[at + 1].is_name or t[at + 1].word == "*"):
            parts.append(t[at + 1].text)
            at += 2
        before = t[start - 1].word if start > lo else ""
        if before in (".", "AS") or t.word(at, hi) in ("(", "->", "=>") or parts[0].lower() in variables:
            continue
        yield Reference(start, at, tuple(parts))


def _variables(t: Tokens, lo: int, hi: int) -> Iterator[str]:
    """The variables of the lambdas between two tokens, in lower case."""
    for i in range(lo + 1, hi):
        if t[i].word != "->":
            continue
        if t[i - 1].word == ")":
            yield from (t[j].text.lower() for j in range(t.match[i - 1] + 1, i - 1) if t[j].is_name)
        else:
            yield t[i - 1].text.lower()
