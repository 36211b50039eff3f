"""Aggregates that the nearest rows decide: ``max(q.ts)``, ``max_by(q.price, q.ts)``, ``max(struct(q.ts, q.price))``.

Each of them has the same value over all pairs of a left row as over the last of them.  Others have it over the least
distant: ``min(abs(t.x - q.x))``, ``min_by(q.price, abs(t.x - q.x))``, ``max_by(q.price, -abs(t.x - q.x))``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql, without_parentheses
from dovetail.planner.expr.calls import unknown
from dovetail.planner.logical.nearest_join import Direction
from dovetail.rules.nearest.distance import (
    RefusedDistance,
    check_tie_breaks,
    may_be_distance,
    read_gap,
    sorting_distance,
)
from dovetail.rules.nearest.pairs import Pairs, Wanted
from dovetail.rules.query.query_block import QueryBlock

_LAST: dict[str, Direction] = {"MAX": "backward", "MAX_BY": "backward", "MIN": "forward", "MIN_BY": "forward"}
_OF_LEFT = ("MAX", "MIN", "ANY_VALUE")
_STRUCTS = {"STRUCT": 1, "NAMED_STRUCT": 2}


def wanted_by_aggregates(block: QueryBlock, pairs: Pairs) -> Wanted | None:
    """What the aggregates of a block need of the pairs of one left row; None where none is of a bounded time.

    Raises ``Refused`` for an aggregate that needs other pairs, too.
    """
    found: Wanted | None = None
    refused: Refused | None = None
    near = False
    for scalar in (*block.project.items, *block.in_clauses):
        if scalar.plans:
            refused = refused or Refused(f"{scalar.shown} holds a subquery", scalar.place)
            continue
        try:
            for wanted in _read(scalar, pairs):
                found = _both(found, wanted, scalar)
        except Refused as no:
            refused = refused or Refused(no.reason, no.place or scalar.place)
            near = near or isinstance(no, RefusedDistance)
    if refused and (near if found is None else pairs.finds(found)):
        raise refused
    return found if found is not None and pairs.finds(found) else None


def may_take_a_distance(block: QueryBlock) -> bool:
    """Whether aggregates of a block may take the least distance; cheap, and never looks anything up."""
    return any(map(may_be_distance, (*block.project.items, *block.in_clauses)))


def decided_by(items: tuple[Scalar, ...], pairs: Pairs) -> tuple[Wanted, tuple[Scalar, ...]] | None:
    """What lone aggregates need of the pairs, and the expressions over the row that they take; None for any other.

    Raises ``Refused`` where they need several rows.
    """
    both: Wanted | None = None
    values = []
    for item in items:
        tree = item.tree.unalias()
        name, arguments = _name(tree), _arguments(tree)
        wanted = _wanted(name, arguments, pairs) if name in _LAST and len(arguments) in (1, 2) else None
        if wanted is None or wanted.near is not None:
            return None
        both = _both(both, wanted, item)
        values.append(Scalar(sql(arguments[0]), (), item.place))
    return None if both is None else (both, tuple(values))


def _read(scalar: Scalar, pairs: Pairs) -> Iterator[Wanted]:
    """What each aggregate of an expression needs; aggregates over the left side alone need any pair of each row."""
    rest = scalar.tree.copy()
    calls = [node for node in rest.walk() if _name(node) in _LAST or _name(node) in _OF_LEFT]
    for node in calls:
        name, arguments = _name(node), _arguments(node)
        if any(isinstance(n, exp.Distinct | exp.AggFunc | exp.Window) for a in arguments for n in a.walk()):
            raise Refused(f"{sql(node)} is more than a plain aggregate", scalar.place)
        if isinstance(node.parent, exp.Filter | exp.Window | exp.IgnoreNulls | exp.RespectNulls):
            raise Refused(f"{sql(node.parent)} is more than a plain aggregate", scalar.place)
        wanted = _wanted(name, arguments, pairs)
        if wanted is not None:
            yield wanted
        elif name not in _OF_LEFT or any(pairs.side(a) not in ("left", None) for a in arguments):
            raise Refused(f"{sql(node)} needs all pairs", scalar.place)
    for node in calls:
        if node is rest:
            return
        node.replace(exp.Null())
    odd = rest.find(exp.AggFunc) or unknown(rest)
    if odd is not None:
        raise Refused(f"{sql(odd)} needs all pairs", scalar.place)


def _wanted(name: str, arguments: list[exp.Expression], pairs: Pairs) -> Wanted | None:
    """The time of which an aggregate takes the last or the first pair; None if it takes that of nothing."""
    if name not in _LAST or not arguments:
        return None
    direction = _LAST[name]
    by = arguments[1] if name.endswith("_BY") and len(arguments) == 2 else arguments[0]
    fields = [by]
    if step := _STRUCTS.get(_name(by)):
        fields = [without_parentheses(field.unalias()) for field in _arguments(by)[step - 1 :: step]]
    sides = [pairs.side(field) for field in fields]
    while sides and sides[0] in ("left", None):  # the same for all pairs of a left row
        fields, sides = fields[1:], sides[1:]
    if fields and sides[0] == "both":
        return _least_distant(fields, pairs, direction, is_struct=fields[0] is not by)
    if not fields or "both" in sides:
        return None
    ties = [field for field, side in zip(fields[1:], sides[1:], strict=True) if side == "right"]
    return Wanted(without_parentheses(fields[0]), direction, _last_first(ties, direction))


def _last_first(ties: list[exp.Expression], direction: Direction) -> tuple[tuple[exp.Expression, bool, bool], ...]:
    """The further fields of a struct as sort keys, so that the field that an aggregate takes comes last."""
    turned = direction == "forward"
    return tuple((tie, turned, not turned) for tie in ties)


def _least_distant(
    fields: list[exp.Expression], pairs: Pairs, direction: Direction, *, is_struct: bool
) -> Wanted | None:
    """The least distance that an aggregate takes, from the field of a struct that decides; None if it is none.

    A NULL is the least field of a struct; aggregates take no other NULL.
    """
    descending = direction == "backward"
    ties = [field for field in fields[1:] if pairs.side(field) not in ("left", None)]
    if gap := read_gap(fields[0], pairs, None):
        if ties:
            raise Refused(f"{sql(ties[0])} decides between rows of one {sql(fields[0])}; take the time itself")
        return Wanted(gap.time, gap.direction(descending=descending))
    distance = sorting_distance(fields[0], pairs, None, descending=descending)
    if distance is None:
        return None
    for tie in ties:
        check_tie_breaks(distance, tie, pairs)
    nulls_first = is_struct and direction == "forward"
    return Wanted(distance.right, "both", _last_first(ties, direction), 1, distance.near, nulls_first)


def _both(found: Wanted | None, wanted: Wanted, scalar: Scalar) -> Wanted:
    """What both need, if the same rows can be it: with those of a distance that is NULL there are the least others."""
    if found is None:
        return wanted
    nulls_first = found.nulls_first or wanted.nulls_first
    found, wanted = (replace(one, nulls_first=nulls_first) for one in (found, wanted))
    if replace(found, ties=()) != replace(wanted, ties=()):
        raise Refused(f"{scalar.shown} needs other pairs than another aggregate", scalar.place)
    if found.ties and wanted.ties and found.ties != wanted.ties:
        raise Refused(f"{scalar.shown} takes another of the rows that tie than another aggregate", scalar.place)
    return found if found.ties else wanted


def _name(node: exp.Expr) -> str:
    """The name of a function in capitals; empty for anything else."""
    if isinstance(node, exp.Max | exp.Min):
        return type(node).__name__.upper()
    named = isinstance(node, exp.Anonymous | exp.AnonymousAggFunc) and isinstance(node.this, str)
    return node.this.upper() if named else ""


def _arguments(node: exp.Expr) -> list[exp.Expression]:
    return [node.this, *node.expressions] if isinstance(node, exp.Max | exp.Min) else list(node.expressions)
