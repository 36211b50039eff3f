"""The state that the parsers of ``from_sql`` share: tokens, WITH names in scope, expressions as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from dovetail.planner.catalog import Settings
from dovetail.planner.errors import Place, QueryError, Unsupported
from dovetail.planner.expr import HOLE, Scalar
from dovetail.planner.expr.tokens import Tokens, tokenize
from dovetail.planner.logical import Logical

QUERY_STARTS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})
_WRITES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})


def not_a_query(text: str) -> str | None:
    """The word that makes a statement more than a query: what it begins with, or what writes behind WITH or FROM."""
    t = tokenize(text)
    first = next((i for i in range(len(t)) if t[i].word != "("), 0)
    if t.word(first) not in QUERY_STARTS:
        return t.word(first) or "an empty text"
    tops = t.top(first, len(t))
    if t.word(first) == "WITH":  # its last definition ends with a bracket, and what is done with them comes next
        behind = (b for a, b in pairwise(tops) if t[a].word == "(" and t[b].word in QUERY_STARTS | _WRITES)
        first = next(behind, first)
        if t.word(first) in _WRITES:
            return t.word(first)
    if t.word(first) == "FROM" and any(
        t[i].word == "INSERT" and t.word(i + 1) in ("INTO", "OVERWRITE") for i in tops if i > first
    ):
        return "INSERT"
    return None


def check_query(text: str, remedy: str) -> None:
    """Raise ``QueryError`` for a statement that is more than a query; Spark refuses a text that cannot be parsed."""
    with suppress(Unsupported):
        if word := not_a_query(text):
            raise QueryError(f"{word} … is not a query{remedy}")


@dataclass(frozen=True)
class Note:
    """Why a piece of SQL was kept as text."""

    reason: str
    place: Place | None


@dataclass
class Reader:
    """The tokens of one statement, the WITH names in scope, and the notes made on the way.

    ``read_query`` reads a range of tokens as a query; the reader has it so that expressions and FROM, which hold
    queries, need not know the reader of queries, which holds them.
    """

    tokens: Tokens
    read_query: Callable[[Reader, int, int], Logical]
    settings: Settings = field(default_factory=Settings)
    scopes: list[dict[str, str]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)
    pipe_names: set[str] = field(default_factory=set)  # those given to relations between pipes
    prefix: tuple[int, int] = (0, 0)  # the tokens of a statement before its query; behind WITH or FROM, inside it

    def scalar(self, lo: int, hi: int) -> Scalar:
        """The text of tokens ``[lo, hi)`` with each subquery replaced by a subquery placeholder."""
        t = self.tokens
        if hi <= lo:
            raise Unsupported("an expression is missing", t.place(t[min(lo, len(t) - 1)].start))
        parts: list[str] = []
        plans: list[Logical] = []
        at = t[lo].start
        i = lo
        while i < hi:
            if t[i].word == "(" and t.word(i + 1, hi) in ("SELECT", "WITH", "FROM"):
                close = t.match[i]
                parts += [t.text[at : t[i].end], f"{HOLE}{len(plans)}"]
                plans.append(self.read_query(self, i + 1, close))
                at = t[close].start
                i = close
            i += 1
        parts.append(t.text[at : t[hi - 1].end])
        return Scalar("".join(parts), tuple(plans), t.place(t[lo].start))

    def conjuncts(self, lo: int, hi: int) -> tuple[Scalar, ...]:
        """Cut a condition at its outermost ANDs; whole if there is an OR at the same level."""
        t = self.tokens
        cuts = []
        between = case = 0
        for i in t.top(lo, hi):
            match t[i].word if t[i - 1].word != "." else "":
                case "OR":
                    if not case:
                        return (self.scalar(lo, hi),)
                case "CASE":
                    case += 1
                case "END" if case:
                    case -= 1
                case "BETWEEN":
                    between += not case
                case "AND" if between and not case:
                    between -= 1
                case "AND" if not case:
                    cuts.append(i)
        bounds = zip([lo, *(c + 1 for c in cuts)], [*cuts, hi], strict=True)
        return tuple(self.scalar(a, b) for a, b in bounds)

    def cte_key(self, name: str) -> str:
        """The key of the WITH definition that a one-part name stands for here, or nothing."""
        return find_definition(name, self.scopes, self.settings)

    def fail(self, reason: str, index: int) -> Unsupported:
        """The exception for something at token ``index`` that is not supported."""
        t = self.tokens
        return Unsupported(reason, t.place(t[min(index, len(t) - 1)].start))


def find_definition(name: str, scopes: Sequence[Mapping[str, str]], settings: Settings) -> str:
    """The key of the WITH definition that a name stands for, or nothing; ``scopes`` has the innermost one last."""
    folded = settings.fold(name)
    return next((scope[folded] for scope in reversed(scopes) if folded in scope), "")
