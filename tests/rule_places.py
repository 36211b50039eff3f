"""The places where a rule moves, copies, negates, compares or bins an expression: one query for each.

In a template, ``{t}`` is the table with the columns of the call, ``{r}`` one with its values, ``{e:p}`` the call over
the columns of ``p``, ``{test:p}`` a condition on it, ``{same:p,q}`` its comparison with the value in ``q``,
``{top:p}`` an aggregate of it, ``{outer:z.e}`` an expression over what another query computed, ``{v}`` and ``{w}`` the
columns of its value and of one that is a step further, ``{step}`` that step.  Where the call is written without an
alias, the query around it has relations called ``x`` and ``y``, as the variables of lambdas are.

Many calls fit into one query where a template says what is repeated: items of a list stand in « », a condition in ‹ ›.
Each call has rows of its own then, told by ``lab``, and its condition is asked of these alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomllib

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


_ITEMS, _CONDITION, _UNMARKED = re.compile("«(.*?)»"), re.compile("‹(.*?)›"), re.compile("[«»‹›]")
_COMPUTED = re.compile(r"(?:(?<=AS )|(?<=[.:])|^)[efm]\b")  # what one query computes and another one reads


@dataclass(frozen=True)
class Place:
    """A query with a hole for calls.

    ``needs``: what has to be true of them (any; equal: comparable; line: a type with a step; number: a line
    that is no time; aggregate); ``rule``: who writes it another way.
    """

    name: str
    rule: str
    needs: str
    template: str

    @property
    def repeats(self) -> bool:
        """Whether it takes many calls."""
        return bool(_ITEMS.search(self.template) or _CONDITION.search(self.template))

    @property
    def asks(self) -> bool:
        """Whether a condition is what is repeated."""
        return self.needs != "aggregate" and bool(_CONDITION.search(self.template))


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
    if not fits(place, call):
        return None
    return _UNMARKED.sub("", place.template).format(**_holes(place, call, call.name, ""))


def query_of_many(place: Place, calls: Sequence[Call], name: str) -> str:
    """The query of a place that says what is repeated, with many calls in it, all of which fit."""

    def said(unit: str) -> list[str]:
        found = []
        for n, call in enumerate(calls):
            found.append(_COMPUTED.sub(rf"\g<0>{n}", unit).format(**_holes(place, call, name, str(n))))
        return found

    def asked(unit: str) -> str:
        alias = re.search(r"\{\w+:(\w)\b|\b(\w)\.e", unit)
        label = f"{alias[1] or alias[2]}.lab" if alias else "lab"
        own = (f"({label} <> {n} OR {one})" for n, one in enumerate(said(unit)))
        return f"({' AND '.join(said(unit) if place.needs == 'aggregate' else own)})"

    units: list[str] = []

    def kept(text: str) -> str:
        units.append(text)
        return f"{{units[{len(units) - 1}]}}"

    template = _ITEMS.sub(lambda m: kept(", ".join(said(m[1]))), place.template)
    template = _CONDITION.sub(lambda m: kept(asked(m[1])), template)
    return template.format(t=f"t_{name}", r=f"r_{name}", view=f"{VIEW}_{name}", units=units)


def _holes(place: Place, call: Call, name: str, number: str) -> dict[str, str | _Said]:
    return {
        "t": f"t_{name}",
        "r": f"r_{name}",
        "view": f"{VIEW}_{name}",
        "v": f"v{number}",
        "w": f"w{number}",
        "step": step(call.type),
        "e": _Said(lambda alias: _inner(call) if not alias and _crosses(call, place) else call.over(alias)),
        "test": _Said(lambda alias: _test(call, alias)),
        "same": _Said(lambda aliases: _same(call, *_two(aliases), f"v{number}")),
        "top": _Said(lambda alias: topped(call, call.over(alias))),
        "outer": _Said(lambda inner: call.over("x", inner) if _crosses(call, place) else _further(call, inner)),
    }


def fits(place: Place, call: Call) -> bool:
    """Whether a call of this type and kind can stand in a place."""
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
    return place.needs != "equal" or compared(call)


def compared(call: Call) -> bool:
    """Whether Spark compares values of its type."""
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


def _two(aliases: str) -> tuple[str, str]:
    one, other = aliases.split(",")
    return one, other


def _same(call: Call, alias: str, other: str, value: str) -> str:
    if compared(call):
        return f"{call.over(alias)} = {other}.{value}"
    return f"({call.over(alias)} IS NULL) = ({other}.{value} IS NULL)"


def topped(call: Call, said: str) -> str:
    """An aggregate of a call, which is said in some words."""
    if call.kind == "aggregate":
        return said
    return f"max({said})" if compared(call) else f"count({said})"
