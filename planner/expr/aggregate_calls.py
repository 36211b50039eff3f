"""Finds the aggregate calls in an expression, with their positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from dovetail.planner.errors import Refused
from dovetail.planner.expr.scalar import HOLE, Scalar, parse
from dovetail.planner.expr.substitution import operand
from dovetail.planner.expr.tokens import Tokens, tokenize

_KNOWN: dict[str, type[exp.AggFunc]] = {
    "COUNT": exp.Count,
    "SUM": exp.Sum,
    "AVG": exp.Avg,
    "MEAN": exp.Avg,
    "MIN": exp.Min,
    "MAX": exp.Max,
}
_OTHERS = {  # and what they return of no rows
    **dict.fromkeys(("COUNT_IF", "APPROX_COUNT_DISTINCT"), "0"),
    **dict.fromkeys(("COLLECT_LIST", "COLLECT_SET", "ARRAY_AGG"), "array()"),
    **dict.fromkeys(("ANY", "SOME", "BOOL_OR", "EVERY", "BOOL_AND", "MAX_BY", "MIN_BY", "MEDIAN"), ""),
    **dict.fromkeys(("STDDEV", "STDDEV_SAMP", "STDDEV_POP", "VARIANCE", "VAR_SAMP", "VAR_POP"), ""),
}
_BEHIND = ("OVER", "FILTER", "WITHIN", "IGNORE", "RESPECT", "[", ".")


@dataclass(frozen=True)
class Call:
    """``function(argument)`` and its position in the SQL; the argument is None for ``*``.

    Also for functions other than count, sum, avg, min and max.  ``of_none``: its value of no rows, if that is not NULL.
    """

    function: str
    argument: Scalar | None
    distinct: bool
    start: int
    end: int
    text: str
    of_none: str = ""


def aggregate_arguments(text: str) -> list[tuple[int, int]]:
    """Find the positions of the arguments of the aggregates in an expression."""
    t = tokenize(text)
    found = (i + 1 for i in range(len(t) - 1) if t[i].word in _KNOWN and t[i].word != "MEAN" and _is_call(t, i))
    return [(t[opening].end, t[t.match[opening]].start) for opening in found]


def has_aggregate(tree: exp.Expr) -> bool:
    """Whether an expression has an aggregate."""
    return bool(_aggregates(tree))


def aggregates_rows(item: Scalar) -> bool:
    """Whether an item has an aggregate that is not a window's; False for one that only Spark can parse."""
    if (tree := item.known) is None:
        return False
    of_windows = [window.this.find(exp.AggFunc, exp.Any) for window in tree.find_all(exp.Window)]
    return any(all(call is not one for one in of_windows) for call in _aggregates(tree))


def _aggregates(tree: exp.Expr) -> list[exp.Expr]:
    return [n for n in tree.find_all(exp.AggFunc, exp.Any) if not _is_of_like(n)]


def calls(scalar: Scalar) -> tuple[Call, ...]:
    """Return the aggregates of an expression.  Raises ``Refused`` for others than count, sum, avg, min and max."""
    t = tokenize(scalar.text)
    found = tuple(_call(t, i, scalar) for i in range(len(t) - 1) if t[i].word in _KNOWN and _is_call(t, i))
    if len(_aggregates(scalar.tree)) != len(found) or scalar.tree.find(exp.Window):
        raise Refused(f"{scalar.shown} computes more than count, sum, avg, min and max")
    return found


def calls_of_groups(scalar: Scalar) -> tuple[Call, ...]:
    """Return the aggregates of an expression, others than those and FILTER included, for a query that groups rows.

    Raises ``Refused`` for aggregates of which the value of no rows is not known.
    """
    t = tokenize(scalar.text)
    found = []
    for i in range(len(t) - 1):
        if not _is_call(t, i) or t[i].word not in (*_KNOWN, *_OTHERS):
            continue
        close = t.match[i + 1]
        if t.word(close + 1) == "FILTER" and t.word(close + 2) == "(":
            close = t.match[close + 2]
        text, name = t.slice(i, close + 1), t[i].word
        if t.word(close + 1) in _BEHIND or HOLE in text:
            raise Refused(f"{text} is more than an aggregate with FILTER")
        of_none = "0" if name == "COUNT" else _OTHERS.get(name, "")
        found.append(Call(name.lower(), None, False, t[i].start, t[close].end, text, of_none))
    if len(_aggregates(scalar.tree)) != len(found) or scalar.tree.find(exp.Window):
        known = "count, count_if, sum, avg, min, max, min_by, max_by, any, every, collect_list and stddev"
        raise Refused(f"{scalar.shown} computes more than {known}")
    return tuple(found)


def _call(t: Tokens, i: int, scalar: Scalar) -> Call:
    """The aggregate at token ``i``.  Raises ``Refused`` for one with FILTER, OVER or another addition."""
    kind, close = _KNOWN[t[i].word], t.match[i + 1]
    text = t.slice(i, close + 1)
    tree: exp.Expr = parse(text, scalar.place)
    if not isinstance(tree, kind) or tree.args.get("expressions") or t.word(close + 1) in _BEHIND or HOLE in text:
        raise Refused(f"{text} is more than a plain aggregate")
    distinct = isinstance(tree.this, exp.Distinct)
    inner = t.slice(i + 3 if distinct or t.word(i + 2) == "ALL" else i + 2, close)
    whole = kind is exp.Count and (inner == "*" or inner.isdigit())
    if distinct and (whole or len(tree.this.expressions) > 1):
        raise Refused(f"{text} is more than a plain aggregate of one column")
    argument = None if whole else Scalar(inner, (), scalar.place)
    return Call(kind.__name__.lower(), argument, distinct, t[i].start, t[close].end, text)


def _is_call(t: Tokens, i: int) -> bool:
    """Whether a word is the name of a function, without a schema, that is called."""
    return t[i + 1].word == "(" and (i == 0 or t[i - 1].word != ".")


def _is_of_like(tree: exp.Expr) -> bool:
    """Whether ANY is part of ``x LIKE ANY (…)``, and not an aggregate."""
    return isinstance(tree, exp.Any) and isinstance(tree.parent, exp.Like | exp.ILike)


def outside(scalar: Scalar, found: tuple[Call, ...]) -> Scalar:
    """Replace the aggregates of an expression by NULL."""
    return replaced(scalar, found, lambda call: "NULL")


def replaced(scalar: Scalar, found: tuple[Call, ...], substitute: Callable[[Call], str]) -> Scalar:
    """Replace every aggregate of an expression, in parentheses if needed."""
    text = scalar.text
    if len(found) == 1 and text.strip() == found[0].text:
        return Scalar(substitute(found[0]), scalar.plans, scalar.place)
    for call in reversed(found):
        text = text[: call.start] + operand(substitute(call)) + text[call.end :]
    return Scalar(text, scalar.plans, scalar.place)
