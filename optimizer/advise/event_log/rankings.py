"""Finds rankings above a join that keep only the nearest rows: ``max_by(v, start)``, ``row_number()``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dovetail.optimizer.advise.event_log.plan_nodes import ATTRIBUTE, PlanNode, attributes, split_top

Extreme = Literal["max", "min"]
_KEEPING = re.compile(r"(?:partial_|merge_)?(max_by|min_by|max|min|first|first_value|any_value)\(")
_LISTS = re.compile(r"\[([^\[\]]*)\]")
_RENAMED = re.compile(r"#(\d+)L? AS [\w ]+#(\d+)")


@dataclass(frozen=True)
class Ranking:
    """``name``, the function; the expression it ranks by, which row it keeps first, and the IDs of its keys."""

    name: str
    order: str
    extreme: Extreme
    keys: frozenset[int]


def ranking_by_bound(node: PlanNode, bounded: dict[int, Extreme]) -> str | None:
    """The ranking above a join that keeps the rows nearest to a bound; ``bounded`` has the nearest end by attribute."""
    sides = [attributes(child) for child in node.children[:2]]
    for ranking, renamed, _ in _rankings(node):
        first = ATTRIBUTE.search(ranking.order)
        number = _original(int(first[2]), renamed) if first else -1
        ranked = next((side for side in sides if number in side), set())
        if bounded.get(number) == ranking.extreme and not ranking.keys & ranked:
            return ranking.name
    return None


def ranking_by_distance(node: PlanNode) -> tuple[str, str] | None:
    """The distance ``abs(x - lo)`` of both sides by which a ranking keeps the least distant rows, and the ranking."""
    left, right = (attributes(child) for child in node.children[:2])
    for ranking, _, aliases in _rankings(node):
        texts = [*calls("abs", ranking.order), *(aliases[n] for n in sorted(numbers(ranking.order)) if n in aliases)]
        for text in texts:
            if ranking.extreme == "min" and numbers(text) & left and numbers(text) & right:
                return ATTRIBUTE.sub(r"\1", f"abs({text.removeprefix('(').removesuffix(')')})"), ranking.name
    return None


def _rankings(node: PlanNode) -> Iterator[tuple[Ranking, dict[int, int], dict[int, str]]]:
    """The rankings above a node, up to the next join, with the columns below them that are renamed or distances."""
    renamed: dict[int, int] = {}
    distances: dict[int, str] = {}
    for above in node.ancestors():
        if above.join:
            return
        for ranking in _read(above):
            yield ranking, renamed, distances
        renamed |= {int(new): int(old) for old, new in _RENAMED.findall(above.text)}
        for text in calls("abs", above.text):
            if named := re.match(r"\S*#(\d+)", above.text.partition(f"abs({text}) AS ")[2]):
                distances[int(named[1])] = text


def _read(node: PlanNode) -> list[Ranking]:
    """The rankings of a node; none where an aggregate needs all rows of a group."""
    if node.name.startswith("Window"):
        found, lists = re.search(r"\b(row_number|rank|dense_rank)\(", node.text), _LISTS.findall(node.text)
        if not found or len(lists) < 2 or " AS " in lists[-2]:
            return []
        order = split_top(lists[-1])[0]
        return [Ranking(f"{found[1]}()", order, "max" if " DESC" in order else "min", frozenset(numbers(lists[-2])))]
    if "Aggregate" not in node.name:
        return []
    keys, _, functions = node.text.partition("functions=[")
    rankings = []
    for function in split_top(functions.rpartition("]")[0]):
        call = _KEEPING.match(function)
        if call is None and not function.startswith("..."):
            return []
        if call and not call[1].startswith(("first", "any")):
            arguments = split_top(calls(call[1], function[call.start(1) :])[0])
            order = arguments[1] if call[1].endswith("_by") and len(arguments) > 1 else arguments[0]
            extreme: Extreme = "max" if call[1].startswith("max") else "min"
            rankings.append(Ranking(f"{call[1]}()", order, extreme, frozenset(numbers(keys))))
    return rankings


def _original(number: int, renamed: dict[int, int]) -> int:
    for _ in range(len(renamed)):
        number = renamed.get(number, number)
    return number


def calls(name: str, text: str) -> list[str]:
    """The arguments of each call of a function, as one text.

    >>> calls("abs", "abs((x#1 - y#2)) + abs(f(z#3))")
    ['(x#1 - y#2)', 'f(z#3)']
    """
    found = []
    for call in re.finditer(rf"\b{name}\(", text):
        depth, at = 1, call.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        found.append(text[call.end() : at - 1])
    return found


def numbers(text: str) -> set[int]:
    """The IDs of the attributes in a text."""
    return {int(number) for _, number in ATTRIBUTE.findall(text)}
