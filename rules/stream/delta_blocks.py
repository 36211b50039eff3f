"""Plans a query over three or more streams as a delta join: its join graph, and the statement of each path.

    FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j

    d(a)      JOIN curr(b) ON a.k = b.k  JOIN curr(c) ON b.j = c.j
    d(b)      JOIN prev(a) ON a.k = b.k  JOIN curr(c) ON b.j = c.j
    d(c)      JOIN prev(b) ON b.j = c.j  JOIN prev(a) ON a.k = b.k

A statement joins in the order of its path.  Conjuncts stand as written where the last of their relations has come; an
equality is added where a lookup needs one that follows from others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from dovetail.planner.bind.scope import Scope
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr import Scalar, quote, sql
from dovetail.planner.hints.blocks import DELTA_ORDER, without
from dovetail.planner.logical import JOIN_KEYWORDS, Join, Logical, Scan
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.state.bounds import equalities
from dovetail.planner.state.delta import DeltaJoin, DeltaPath, Lookup, Value
from dovetail.planner.state.program import EpochProgram, Read, Step, Version
from dovetail.rules.analysis.delta_join import JoinGraph, Sizes, delta_join
from dovetail.rules.analysis.equivalence_classes import Equality
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.stream.relations import Relation
from dovetail.rules.stream.stream_blocks import Shape, alias_of, scan_of


@dataclass(frozen=True)
class Routed:
    """The paths of a delta join, and a step of its program for each."""

    delta: DeltaJoin
    program: EpochProgram


@dataclass(frozen=True)
class JoinOrder:
    """What decides the order of lookups: the input of each relation, the stored rows of each, the order of a hint."""

    inputs: tuple[int, ...]
    sizes: Sizes
    hinted: tuple[int, ...]


def routed(shape: Shape, relations: Sequence[Relation], scope: Scope, order: JoinOrder) -> Routed:
    """Plan the paths of a join; ``scope`` has its relations.

    Raises ``Refused`` with the reason where it is none that can be.
    """
    names = tuple(alias_of(relation) for relation in shape.relations)
    read = Conjuncts(shape.on, relations, scope)
    graph = JoinGraph(names, tuple(read.equalities), tuple(read.named), order.inputs)
    delta = delta_join(graph, sizes=order.sizes, order=order.hinted)
    statements = _Statements(shape, read, names)
    return Routed(delta, EpochProgram(tuple(map(statements.step, delta.paths))))


class Conjuncts:
    """The conjuncts of a join: the relations each names, and the equalities of two among them."""

    def __init__(self, conjuncts: tuple[Scalar, ...], relations: Sequence[Relation], scope: Scope):
        self.all, self.relations, self.scope = conjuncts, relations, scope
        self.named: list[frozenset[int]] = []
        self.equalities: list[Equality] = []
        self.written: dict[Value, exp.Expression] = {}
        for conjunct in conjuncts:
            check_deterministic(conjunct)
            self.named.append(scope.bind(conjunct.tree).items)
            operands = equalities(conjunct, of_nulls=True)
            values = [self._value(operand) for operand in operands or ()]
            if operands and len(values) == 2 and values[0] and values[1] and values[0][0] != values[1][0]:
                types = [scope.type_of(operand) for operand in operands]
                plain = types[0] is not None and types[0] == types[1]
                strict = equalities(conjunct) is not None
                self.equalities.append(Equality(values[0], values[1], strict=strict, plain=plain))

    def _value(self, operand: exp.Expression) -> Value | None:
        """An operand over one relation as a value of it."""
        named = self.scope.bind(operand).items
        if len(named) != 1:
            return None
        (number,) = named
        text = self.relations[number].over_base(sql(operand))
        tree = Scalar(text).tree
        value = number, quote(tree.name) if isinstance(tree, exp.Column) else text
        self.written.setdefault(value, operand)
        return value

    def on(self, lookup: Lookup) -> tuple[Scalar, ...]:
        """The condition of a lookup."""
        added = []
        pairs = {frozenset((e.left, e.right)) for e in self.equalities}
        for own, other in lookup.key:
            if frozenset(((lookup.input, own), other)) not in pairs:
                tree = exp.EQ(this=self.written[other].copy(), expression=self.written[lookup.input, own].copy())
                added.append(Scalar(sql(tree)))
        return (*added, *(self.all[n] for n in lookup.conditions))


@dataclass(frozen=True)
class _Statements:
    """The query over the relations of a path."""

    shape: Shape
    read: Conjuncts
    names: tuple[str, ...]

    def step(self, path: DeltaPath) -> Step:
        """The half-joins of a path, and its statement."""
        conditions = self._conditions(path)
        shown = [" AND ".join(c.shown for c in on) for on in conditions]
        return Step(path.flow(shown), self._statement(path, conditions))

    def _conditions(self, path: DeltaPath) -> list[tuple[Scalar, ...]]:
        """Return the condition of each lookup; the first also has those on the new rows alone."""
        first, *others = map(self.read.on, path.lookups)
        return [(*first, *(self.read.all[n] for n in path.conditions)), *others]

    def _statement(self, path: DeltaPath, conditions: list[tuple[Scalar, ...]]) -> str:
        tree: Logical = self._scan(Read(Version.NEW, path.input))
        for lookup, on in zip(path.lookups, conditions, strict=True):
            tree = Join(tree, self._scan(lookup.read), "inner", JOIN_KEYWORDS["inner"], on)
        block = self.shape.block
        items = tuple(column for item in block.project.items for column in self._expanded(item))
        return to_sql(block.over(tree, items=items, hint=without(block.project.hint, DELTA_ORDER)))

    def _scan(self, read: Read) -> Scan:
        return scan_of(read, self.names[read.side])

    def _expanded(self, item: Scalar) -> tuple[Scalar, ...]:
        """An item of the select list; ``*`` as the relations in the order in which they are written."""
        if not isinstance(item.tree, exp.Star):
            return (item,)
        if item.text.strip() != "*":
            raise Unsupported(f"{item.shown} would have other columns where relations are joined in another order")
        return tuple(Scalar(f"{quote(name)}.*") for name in self.names)
