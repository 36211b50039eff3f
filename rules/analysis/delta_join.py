"""The solver of delta joins: the paths by which new rows of each input look up the others.

It knows inputs by number, values by text, and nothing of streams or SQL.  The join graph has an edge where an equality,
or several that follow one from the other (a.k = b.k AND b.k = c.k), lets rows of one input be looked up by another.
After RisingWave's solver, which its optimizer does not call, with versions by pair of inputs (``delta.py``);
Materialize plans one such path an input too (``join_implementation``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import networkx as nx

from dovetail.planner.errors import Unsupported
from dovetail.planner.state.delta import DeltaJoin, DeltaPath, Lookup, Value, version_of
from dovetail.rules.analysis.equivalence_classes import Equality, EquivalenceClasses

Arrangement = tuple[int, frozenset[str]]  # a source, and the values by which its rows are found


@dataclass(frozen=True)
class JoinGraph:
    """An inner join of n inputs, which are numbered as they are written.

    ``conditions``: the inputs that each conjunct names, the equalities among them; each is evaluated once in a path, as
    early as it can be.  ``sources``: what each input reads, by number; without them every input is another's.
    """

    names: tuple[str, ...]
    equalities: tuple[Equality, ...]
    conditions: tuple[frozenset[int], ...] = ()
    sources: tuple[int, ...] = ()


@dataclass(frozen=True)
class Sizes:
    """The rows of the inputs, as far as they are known."""

    rows: Mapping[int, int] = field(default_factory=dict)


def delta_join(
    graph: JoinGraph,
    *,
    sizes: Sizes | None = None,
    order: Sequence[int] = (),
) -> DeltaJoin:
    """The paths of all inputs of a join.

    Of the inputs that a path can look up next it takes the one that stands first in ``order``; then one by the key of
    the lookup before, so that rows stay where they are; then the largest where what is new looks up by itself, which
    Spark knows to be small and copies, and the smallest where rows that were found do, which Spark takes for many and
    sorts; then one that a path before looks up by that key; then the first as written.

    Raises ``Unsupported`` where no equality leads from one part of the inputs to another.
    """
    solver = _Solver(graph, sizes or Sizes(), tuple(order))
    solver.check_connected()
    return DeltaJoin(graph.names, solver.sources, tuple(map(solver.path, range(len(graph.names)))))


class _Candidate(NamedTuple):
    """An input that could be looked up next; the least is taken."""

    rank: int
    moved: bool
    rows: float
    new: bool
    input: int


class _Solver:
    """One join graph; ``groups`` are values that are equal in every joined row."""

    def __init__(self, graph: JoinGraph, sizes: Sizes, order: tuple[int, ...]):
        self.graph, self.sizes = graph, sizes
        self.sources = graph.sources or tuple(range(len(graph.names)))
        self.ranks = {number: rank for rank, number in enumerate(order)}
        self.arranged: set[Arrangement] = set()
        self.written = {frozenset((e.left, e.right)) for e in graph.equalities}
        self.groups = _groups(graph.equalities)

    def check_connected(self) -> None:
        """Raise ``Unsupported`` unless equalities lead from every input to every other."""
        reach = nx.Graph()
        reach.add_nodes_from(range(len(self.graph.names)))
        for group in self.groups:
            nx.add_path(reach, sorted({number for number, _ in group}))
        parts = sorted(sorted(part) for part in nx.connected_components(reach))
        if len(parts) > 1:
            one, other = (", ".join(self.graph.names[n] for n in part) for part in parts[:2])
            raise Unsupported(
                f"no equality of two relations leads from {one} to {other}: "
                f"each new row of {other} would meet every row of {one}"
            )

    def path(self, start: int) -> DeltaPath:
        """The path of an input."""
        seen, by = [start], frozenset[int]()
        lookups: list[Lookup] = []
        waiting = [n for n, inputs in enumerate(self.graph.conditions) if inputs - {start}]
        while len(seen) < len(self.graph.names):
            keys = {n: key for n in range(len(self.graph.names)) if n not in seen and (key := self._key(n, seen))}
            taken = min(self._candidate(n, key, by) for n, key in keys.items()).input
            key = keys[taken]
            seen.append(taken)
            by = frozenset(key)
            due = tuple(n for n in waiting if self.graph.conditions[n] <= set(seen))
            waiting = [n for n in waiting if n not in due]
            pairs = tuple(dict.fromkeys(pair for found in key.values() for pair in found))
            lookups.append(Lookup(taken, version_of(start, taken), pairs, due))
            self.arranged.add((self.sources[taken], frozenset(own for own, _ in pairs)))
        alone = tuple(n for n, inputs in enumerate(self.graph.conditions) if not inputs - {start})
        return DeltaPath(start, tuple(lookups), alone)

    def _key(self, number: int, seen: Sequence[int]) -> dict[int, list[tuple[str, Value]]]:
        """By group, the values of an input that are equal to one that a path has found, with that one."""
        found: dict[int, list[tuple[str, Value]]] = {}
        for n, group in enumerate(self.groups):
            others = [value for s in seen for value in group if value[0] == s]
            own = [value for value in group if value[0] == number]
            if own and others:
                found[n] = [(value[1], self._matching_value(value, others)) for value in own]
        return found

    def _matching_value(self, own: Value, others: Sequence[Value]) -> Value:
        """Return an earlier value that a written equality compares with this one; else the first."""
        return next((o for o in others if frozenset((own, o)) in self.written), others[0])

    def _candidate(self, number: int, key: dict[int, list[tuple[str, Value]]], by: frozenset[int]) -> _Candidate:
        own = frozenset(text for pairs in key.values() for text, _ in pairs)
        rows = self.sizes.rows.get(number, inf)
        return _Candidate(
            self.ranks.get(number, len(self.ranks)),
            bool(by) and frozenset(key) != by,
            rows if by or rows == inf else -rows,
            (self.sources[number], own) not in self.arranged,
            number,
        )


def _groups(equalities: Sequence[Equality]) -> list[tuple[Value, ...]]:
    """Classes of equal values of inputs, and pairs whose equality does not carry further; in the order written."""
    classes = EquivalenceClasses.of(equalities).classes
    found: dict[object, dict[Value, None]] = {}
    for n, e in enumerate(equalities):
        group = found.setdefault(("class", classes[e.left]) if e.strict and e.plain else n, {})
        group.update({(number, text): None for number, text in (e.left, e.right) if isinstance(number, int)})
    return [tuple(group) for group in found.values()]
