"""How an expression uses its subqueries: as a scalar, or as the operand of EXISTS, IN and the like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sqlglot import exp

from dovetail.planner.expr.scalar import HOLE, HOLES, Scalar, sql
from dovetail.planner.expr.tokens import Tokens, tokenize
from dovetail.planner.tree import Node

SubqueryKind = Literal["scalar", "exists", "in", "other"]
_TAKE_QUERIES = ("EXISTS", "IN", "ANY", "ALL", "SOME", "ARRAY")


@dataclass(frozen=True)
class Subquery:
    """A subquery in an expression, and what it is there: from ``start`` to ``end`` stands ``EXISTS (…)`` or ``(…)``."""

    plan: Node
    kind: SubqueryKind
    start: int
    end: int


class SubqueryTest(NamedTuple):
    """``[NOT] EXISTS (query)``, or with a ``value``, which may be ``(x, y)``, ``value [NOT] IN (query)``."""

    value: Scalar | None
    negated: bool
    query: Node

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The values of which IN compares each with its column."""
        if self.value is None:
            return ()
        tree = self.value.known
        if not isinstance(tree, exp.Tuple):
            return (self.value,)
        return tuple(Scalar(sql(one), (), self.value.place) for one in tree.expressions)

    def __str__(self) -> str:
        return ("NOT " if self.negated else "") + ("IN" if self.value else "EXISTS")


def subqueries(scalar: Scalar) -> tuple[Subquery, ...]:
    """The subqueries of an expression, in the order of ``plans``."""
    if not scalar.plans:
        return ()
    t = tokenize(scalar.text)
    places = {t[i].text: i for i in range(len(t)) if t[i].text.startswith(HOLE)}
    return tuple(_subquery(t, places[f"{HOLE}{n}"], plan) for n, plan in enumerate(scalar.plans))


def subquery_test(conjunct: Scalar) -> SubqueryTest | None:
    """Read a conjunct that is one EXISTS or IN, with any NOT and parentheses around it.

    Of ``a OR b IN (query)``, ``b`` is the operand of IN, so this is no such conjunct.
    """
    if len(conjunct.plans) != 1:
        return None
    t = tokenize(conjunct.text)
    lo, hi, negated = 0, len(t), False
    while lo < hi:
        if t.word(lo) == "(" and t.match[lo] == hi - 1:
            lo, hi = lo + 1, hi - 1
        elif t.word(lo) == "NOT":
            lo, negated = lo + 1, not negated
        else:
            break
    (used,) = subqueries(conjunct)
    if used.kind == "exists" and (t[lo].start, t[hi - 1].end) == (used.start, used.end):
        return SubqueryTest(None, negated, used.plan)
    if used.kind != "in" or t[hi - 1].end != used.end or hi - lo < 5:
        return None
    end = hi - 4
    if t.word(end - 1) == "NOT":
        end, negated = end - 1, not negated
    value = Scalar(t.slice(lo, end), (), conjunct.place)
    if isinstance(value.known, exp.Connector | exp.Not):
        return None
    return SubqueryTest(value, negated, used.plan)


def replace_scalar_subqueries(scalar: Scalar, value: Callable[[Node], str | None]) -> Scalar:
    """An expression with other words for each scalar subquery that ``value`` has some for; else itself."""
    return replace_subqueries(scalar, lambda used: value(used.plan) if used.kind == "scalar" else None)


def replace_subqueries(scalar: Scalar, value: Callable[[Subquery], str | None]) -> Scalar:
    """An expression with a value for each scalar subquery and EXISTS that ``value`` has one for; else itself."""
    used, kept = subqueries(scalar), list[Node]()
    pieces, end = list[str](), 0
    for one in used:
        text = value(one) if one.kind in ("scalar", "exists") else None
        if text is None:
            kept.append(one.plan)
        before = scalar.text[one.start : one.end]
        new = HOLES.sub(f"{HOLE}{len(kept) - 1}", before) if text is None else f"({text})"
        pieces += (scalar.text[end : one.start], new)
        end = one.end
    if len(kept) == len(used):
        return scalar
    return Scalar("".join((*pieces, scalar.text[end:])), tuple(kept), scalar.place)


def _subquery(t: Tokens, at: int, plan: Node) -> Subquery:
    first, last = at - 1, at + 1
    if at == 0 or t.word(first) != "(" or t.word(last) != ")":
        return Subquery(plan, "other", t[at].start, t[at].end)
    if first and t.word(first - 1) == "EXISTS":
        return Subquery(plan, "exists", t[first - 1].start, t[last].end)
    kind: SubqueryKind = "scalar" if _is_scalar(t, first, last) else "other"
    if first and t.word(first - 1) == "IN":
        kind = "in"
    return Subquery(plan, kind, t[first].start, t[last].end)


def _is_scalar(t: Tokens, first: int, last: int) -> bool:
    """Whether what stands in these parentheses, and in any around them, is no operand of a word before them."""
    while first and t.word(first - 1) == "(" and t.match[first - 1] == last + 1:
        if first > 1 and t[first - 2].is_name and t[first - 2].word not in _TAKE_QUERIES:
            return True  # the argument of a function
        first, last = first - 1, last + 1
    return not first or not (t[first - 1].is_name or t[first - 1].word in _TAKE_QUERIES)
