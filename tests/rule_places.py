"""The places where a rule moves, copies, negates, compares or bins an expression: one query for each.

In a template, ``{t}`` is the table with the columns of the call, ``{r}`` one with its values, ``{e:p}`` the call over
the columns of ``p``, ``{test:p}`` a condition on it, ``{same:p,q}`` its comparison with the value in ``q``,
``{top:p}`` an aggregate of it, ``{outer:z.e}`` an expression over what another query computed, ``{v}`` and ``{w}`` the
columns of its value and of one that is a step further, ``{step}`` that step.  Where the call is written without an
alias, the query around it has relations called ``x`` and ``y``, as the variables of lambdas are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from spark_calls import Call, step

VIEW = "view_of_a_call"
_BAND = "p.k BETWEEN q.lo AND q.hi"
_OWN_BAND = "y.g = x.g AND y.k BETWEEN x.k - 1 AND x.k"
KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
_NOT_COMPARED = ("map", "variant", "geo", "calendar", "void")
_OTHER = {  # what a query around another does with what that computes
    "boolean": "NOT {0}",
    "string": "{0} || 'x' LIKE '%1x'",
    "date": "{0} - INTERVAL 1 DAY",
    "timestamp": "{0} - INTERVAL 1 DAY",
    "timestamp_ntz": "{0} - INTERVAL 1 DAY",
}


@dataclass(frozen=True)
class Place:
    """A query with a hole for calls.

    ``needs``: what has to be true of them (any, line, number, aggregate); ``rule``: who writes it another way.
    """

    name: str
    rule: str
    needs: str
    template: str


def _places() -> Iterator[Place]:
    known = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["place"]
    for one in known:
        template = one["sql"].replace("{band}", _BAND).replace("{own_band}", _OWN_BAND)
        for kind in KINDS if one.get("kinds") else ("",):
            kept_alone = "SEMI" in kind or "ANTI" in kind
            items = template.split(" {kind}")[0].split()[-1] + ".id" if kept_alone else "p.id AS i, q.id AS j"
            said = template.replace("{items}", items).replace("{kind}", kind)
            yield Place(one["name"] + (f", {kind.lower()}" if kind else ""), one["rule"], one["needs"], said)


PLACES: tuple[Place, ...] = tuple(_places())


class _Said:
    """A piece of a template that is said of a relation."""

    def __init__(self, say: Callable[[str], str]):
        self.say = say

    def __format__(self, alias: str) -> str:
        return self.say(alias)


def query(place: Place, call: Call) -> str | None:
    """The query of a place with a call in it; None where its type has no place there."""
    if not _fits(place, call):
        return None
    pieces = {
        "t": f"t_{call.name}",
        "r": f"r_{call.name}",
        "view": f"{VIEW}_{call.name}",
        "v": "v",
        "w": "w",
        "step": step(call.type),
        "e": _Said(lambda alias: _inner(call) if not alias and _crosses(call, place) else call.over(alias)),
        "test": _Said(lambda alias: _test(call, alias)),
        "same": _Said(lambda aliases: _same(call, *aliases.split(","))),
        "top": _Said(lambda alias: _top(call, alias)),
        "outer": _Said(lambda inner: call.over("x", inner) if _crosses(call, place) else _further(call, inner)),
    }
    return place.template.format(**pieces)


def _fits(place: Place, call: Call) -> bool:
    if call.kind == "aggregate":
        return place.needs == "aggregate"
    if call.kind in ("window", "generator"):
        return place.needs == "any" and "{e:}" in place.template and "{test" not in place.template
    if place.needs in ("line", "number") and not step(call.type):
        return False
    if place.needs == "number" and ("time" in call.type or call.type.startswith(("date", "interval"))):
        return False
    if not call.deterministic and ("{v}" in place.template or "{same" in place.template):
        return False
    if place.name == "view" and not call.deterministic:
        return False
    return place.needs != "equal" or _compared(call)


def _compared(call: Call) -> bool:
    return not any(word in call.type for word in _NOT_COMPARED) and call.type != "interval"


def _inner(call: Call) -> str:
    """What the inner query of two computes: the inner call of two."""
    return call.inner.replace("§", "") if call.inner else call.over("")


def _crosses(call: Call, place: Place) -> bool:
    """Whether the inner call of two stands in a subquery, and the outer one around it."""
    return bool(call.inner) and "{outer" in place.template and "{t} x" in place.template


def _further(call: Call, inner: str) -> str:
    """What can be done with any value of the type."""
    number = step(call.type) == "1" and call.type != "date" and call.kind != "aggregate"
    return ("10 - {0}" if number else _OTHER.get(call.type, "{0}")).format(inner)


def _test(call: Call, alias: str) -> str:
    said = call.over(alias)
    if call.type == "boolean":
        return said
    if step(call.type) == "1" and call.type != "date":
        return f"{said} > 1"
    if call.type in ("date", "timestamp", "timestamp_ntz"):
        return f"{said} < DATE'2015-01-01'"
    if call.type == "string":
        return f"{said} >= 'a'"
    return f"{said} IS NOT NULL"


def _same(call: Call, alias: str, other: str) -> str:
    if _compared(call):
        return f"{call.over(alias)} = {other}.v"
    return f"({call.over(alias)} IS NULL) = ({other}.v IS NULL)"


def _top(call: Call, alias: str) -> str:
    if call.kind == "aggregate":
        return call.over(alias)
    return f"max({call.over(alias)})" if _compared(call) else f"count({call.over(alias)})"
