"""Extracts the diagram of a join of streams from its plan: inputs, arrangements, and the lookups of new rows."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.planner.physical.half_join import Arrangement, AsOfHalfJoin, Build, Epoch, HalfJoin
from dovetail.planner.tree import Node


@dataclass(frozen=True)
class Stop:
    """An arrangement on a route, and the condition of the lookup in it; the first stop has none."""

    label: str
    version: str
    condition: str = ""


@dataclass(frozen=True)
class Routes:
    """The inputs with their notes, the arrangements that are looked up, and a route for the new rows of each input."""

    inputs: tuple[tuple[str, tuple[str, ...]], ...]
    arrangements: tuple[str, ...]
    routes: tuple[tuple[Stop, ...], ...]


def routes_of(plan: Node | None) -> Routes | None:
    """The routes of an epoch; None for a plan that is not one."""
    if not isinstance(plan, Epoch):
        return None
    builds = tuple((step.name, step.lines) for step in plan.steps if isinstance(step, Build))
    routes = tuple(tuple(_stops(step)) for step in plan.steps if not isinstance(step, Build))
    arrangements = dict.fromkeys(stop.label for route in routes for stop in route[1:])
    return Routes(builds, tuple(arrangements), routes)


def _stops(node: Node) -> list[Stop]:
    match node:
        case Arrangement():
            by = f" by {', '.join(node.by)}" if node.by else ""
            return [Stop(f"{node.name}{by}", node.version.name.lower())]
        case HalfJoin():
            *others, last = _stops(node.right)
            time = f", the version valid at {node.time}" if isinstance(node, AsOfHalfJoin) else ""
            stop = Stop(last.label, last.version, f"{node.kind}, on {node.condition}{time}")
            return [*_stops(node.left), *others, stop]
    return [stop for child in node.children for stop in _stops(child)]
