"""The calls of aggregates in an expression, and where they stand in its text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from planner.expr import HOLE, Scalar, parse
from planner.expr.rewording import operand
from planner.expr.tokens import tokenize
from planner.sql.names import Unresolved

_KNOWN: dict[str, type[exp.AggFunc]] = {
    "COUNT": exp.Count,
    "SUM": exp.Sum,
    "AVG": exp.Avg,
    "MEAN": exp.Avg,
    "MIN": exp.Min,
    "MAX": exp.Max,
}
_BEHIND = ("OVER", "FILTER", "WITHIN", "IGNORE", "RESPECT", "[", ".")


@dataclass(frozen=True)
class Call:
    """``function(argument)`` as it stands in a text; the argument is None for all rows."""

    function: str
    argument: Scalar | None
    distinct: bool
    start: int
    end: int
    text: str


def calls(scalar: Scalar) -> tuple[Call, ...]:
    """The aggregates of an expression.  Raises ``Unresolved`` for any but count, sum, avg, min and max of one value."""
    text = scalar.text
    t = tokenize(text)
    found: list[Call] = []
    for i in range(len(t)):
        kind = _KNOWN.get(t[i].word)
        if kind is None or t.word(i + 1) != "(" or (i and t[i - 1].word == "."):
            continue
        close = t.match[i + 1]
        said = t.slice(i, close + 1)
        tree: exp.Expr = parse(said, scalar.place)
        if not isinstance(tree, kind) or tree.args.get("expressions") or t.word(close + 1) in _BEHIND or HOLE in said:
            raise Unresolved(f"{said} is more than a plain aggregate")
        distinct = isinstance(tree.this, exp.Distinct)
        inner = t.slice(i + 3 if distinct or t.word(i + 2) == "ALL" else i + 2, close)
        whole = kind is exp.Count and (inner == "*" or inner.isdigit())
        if distinct and (whole or len(tree.this.expressions) > 1):
            raise Unresolved(f"{said} is more than a plain aggregate of one column")
        argument = None if whole else Scalar(inner, (), scalar.place)
        found.append(Call(kind.__name__.lower(), argument, distinct, t[i].start, t[close].end, said))
    aggregates = [n for n in scalar.tree.find_all(exp.AggFunc, exp.Any) if not _is_of_like(n)]
    if len(aggregates) != len(found) or scalar.tree.find(exp.Window):
        raise Unresolved(f"{scalar.shown} computes more than count, sum, avg, min and max")
    return tuple(found)


def _is_of_like(tree: exp.Expr) -> bool:
    """Whether ANY stands in ``x LIKE ANY (…)``, and is no aggregate."""
    return isinstance(tree, exp.Any) and isinstance(tree.parent, exp.Like | exp.ILike)


def outside(scalar: Scalar, found: tuple[Call, ...]) -> Scalar:
    """The expression with NULL in the place of its aggregates."""
    return replaced(scalar, found, lambda call: "NULL")


def replaced(scalar: Scalar, found: tuple[Call, ...], say: Callable[[Call], str]) -> Scalar:
    """The expression with every aggregate said otherwise, in parentheses where that is more than one operand."""
    text = scalar.text
    if len(found) == 1 and text.strip() == found[0].text:
        return Scalar(say(found[0]), scalar.plans, scalar.place)
    for call in reversed(found):
        text = text[: call.start] + operand(say(call)) + text[call.end :]
    return Scalar(text, scalar.plans, scalar.place)
