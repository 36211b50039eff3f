"""Finds the joins that Spark runs as a nested loop: those without an equality between their two sides.

    FROM a JOIN b ON a.ts BETWEEN b.lo AND b.hi        every row of a is compared with every row of b
    FROM a, b, c WHERE a.k = c.k AND b.j = c.j         no nested loop: Spark joins c before b

Spark joins by hashing or sorting where a conjunct compares an expression of one side with one of the other for
equality (Catalyst's ExtractEquiJoinKeys).  It joins the relations of inner joins from left to right, but prefers the
next one that any condition connects (ReorderJoin).  A relation of one row makes a loop of no cost, which is left out.
A condition with a name that cannot be resolved counts as an equality, so that no join is reported by mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import Scope
from dovetail.planner.catalog import Catalog
from dovetail.planner.catalog.stats import UNKNOWN, Statistics
from dovetail.planner.conditions.compared import compared
from dovetail.planner.conditions.normal_form import normal_form
from dovetail.planner.errors import NoSuchColumn, Place, Refused, Unsupported
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.aggregate_calls import aggregates_rows
from dovetail.planner.expr.subqueries import subqueries
from dovetail.planner.logical import (
    Aggregate,
    Cte,
    Derived,
    Filter,
    Join,
    LateralView,
    Limit,
    Logical,
    Nested,
    OneRow,
    Project,
    Relation,
    Scan,
    Sort,
    With,
    Wrapped,
)
from dovetail.planner.logical.relations import references_left
from dovetail.planner.tree import Node
from dovetail.rules.query.from_items import bare, leaves
from dovetail.rules.query.query_block import QueryBlock, read_block

_INNER = ("inner", "cross")


@dataclass(frozen=True)
class NestedLoop:
    """A join in which Spark compares every pair of rows: its kind, sides, condition (or none) and place.

    ``pairs``: the product of the sizes of both sides before their filters; None if one of them is unknown.
    """

    kind: str
    left: str
    right: str
    condition: str
    place: Place | None
    pairs: int | None = None


def find_nested_loops(plan: Logical, catalog: Catalog) -> tuple[NestedLoop, ...]:
    """Find the nested loops of a statement as it was read, in the order of its query blocks."""
    names = Resolver(catalog, {node.key: node for node in plan.walk() if isinstance(node, Cte)})
    finder = _Finder(names)
    blocks = [block for node in plan.walk() if isinstance(node, Project) and (block := read_block(node))]
    compared_outside = {project for block in blocks for project in finder.compared_subqueries(block)}
    found: list[NestedLoop] = []
    for block in blocks:
        if block.project not in compared_outside:
            found += finder.of_block(block)
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class _Conjunct:
    """A conjunct over the relations of a cluster: those that it names, and those of each operand of an equality."""

    scalar: Scalar
    relations: frozenset[int]
    operands: tuple[frozenset[int], frozenset[int]] | None

    def equates(self, left: frozenset[int], right: frozenset[int]) -> bool:
        """Whether it is an equality between expressions of the two sides."""
        if self.operands is None:
            return False
        a, b = self.operands
        return bool(a and b) and ((a <= left and b <= right) or (a <= right and b <= left))


@dataclass(frozen=True)
class _Finder:
    names: Resolver

    def of_block(self, block: QueryBlock) -> Iterator[NestedLoop]:
        """The nested loops of FROM, and of the EXISTS tests in WHERE."""
        condition = _normal(block.condition)
        yield from self._of_tree(block.tree, tuple(c for c in condition if not c.plans))
        for conjunct in condition:
            for used in subqueries(conjunct):
                inner = read_block(used.plan) if used.kind == "exists" else None
                if inner:
                    yield from self._of_exists(block, inner, conjunct)

    def compared_subqueries(self, block: QueryBlock) -> Iterator[Project]:
        """The subqueries of FROM of which WHERE equates two columns: Spark makes that a condition of their joins."""
        items = leaves(block.tree, named=True)
        scope = replace(self._scope(block.tree), items=tuple(range(len(items))))
        conditions = [c for c in block.condition if not c.plans and "=" in c.text]
        for conjunct in self._read(tuple(conditions), scope) or () if len(items) == len(scope.sources) else ():
            if conjunct.operands and conjunct.operands[0] and conjunct.operands[0] == conjunct.operands[1]:
                item = items[min(conjunct.relations)]
                cte = self.names.definitions.get(item.cte) if isinstance(item, Scan) else None
                query = cte.query if cte else item.query if isinstance(item, Derived) else None
                inner = read_block(query) if query else None
                if inner:
                    yield inner.project

    def _of_tree(self, tree: Logical, where: tuple[Scalar, ...]) -> Iterator[NestedLoop]:
        items: list[Logical] = []
        places: dict[int, Place | None] = {}
        conjuncts: list[Scalar] = []

        def flatten(node: Logical) -> None:
            inner = bare(node)
            if isinstance(inner, Join) and _is_reordered(inner):
                flatten(inner.left)
                places[len(items)] = inner.place
                flatten(inner.right)
                conjuncts.extend(c for c in _normal(inner.condition) if not c.plans)
            else:
                items.append(inner)

        flatten(tree)
        conditions = (*conjuncts, *where)
        yield from self._of_cluster(items, places, conditions)
        for item in items:
            yield from self._of_item(item, conditions)

    def _of_item(self, item: Logical, conditions: tuple[Scalar, ...]) -> Iterator[NestedLoop]:
        """The nested loops within a relation, to which Spark pushes the conditions around it."""
        if isinstance(item, LateralView):
            yield from self._of_tree(item.child, conditions)
        if not isinstance(item, Join):
            return
        on = tuple(c for c in _normal(item.condition) if not c.plans)
        for side in (item.left, item.right):
            yield from self._of_tree(side, (*conditions, *on))
        if item.using or item.natural or references_left(item.right):
            return
        known = on if item.kind in ("semi", "anti") else (*on, *conditions)
        read = self._read(known, self._scope(item.left, item.right))  # ON of a semi join names both sides
        if read is None or any(c.equates(frozenset((0,)), frozenset((1,))) for c in read):
            return
        shown = [c for c in on if c in [one.scalar for one in read if len(one.relations) > 1]] or list(on)
        yield from self._loop(item.kind, item.left, item.right, shown, item.place)

    def _of_cluster(
        self, items: list[Logical], places: dict[int, Place | None], conditions: tuple[Scalar, ...]
    ) -> Iterator[NestedLoop]:
        """The nested loops among relations of inner joins, in the order in which Spark joins them."""
        if len(items) < 2:
            return
        read = self._read(conditions, self._scope(*items))
        if read is None:
            return
        joined, waiting = frozenset((0,)), list(range(1, len(items)))
        while waiting:
            usable = {n: [c for c in read if _joins(c, joined, n)] for n in waiting}
            number = next((n for n in waiting if usable[n]), waiting[0])
            here, right = usable[number], frozenset((number,))
            is_loop = not any(c.equates(joined, right) for c in here)
            if is_loop and not all(self._has_one_row(items[n]) for n in joined):
                left = items[min(joined)] if len(joined) == 1 else None
                yield from self._loop(
                    "inner" if here else "cross", left, items[number], [c.scalar for c in here], places.get(number)
                )
            joined |= right
            waiting.remove(number)

    def _of_exists(self, block: QueryBlock, inner: QueryBlock, conjunct: Scalar) -> Iterator[NestedLoop]:
        outer = self._scope(block.tree)
        scope = Scope.of(self.names, inner.tree, outer=outer)
        across: list[Scalar] = []
        for c in _normal(inner.conjuncts):
            try:
                if c.plans or 1 not in (bound := scope.bind(c)).levels:
                    continue
                across.append(c)
                found = compared(c)
                if found and found.equal:
                    levels = [scope.bind(operand).levels for operand in found.operands]
                    if sorted(map(sorted, levels)) == [[0], [1]]:
                        return
                if max(bound.levels) > 1:
                    return
            except Refused:
                return
        if across:
            yield from self._loop("exists", block.tree, inner.tree, across, conjunct.place)

    def _scope(self, *relations: Node) -> Scope:
        return Scope.of(self.names, *relations)

    def _read(self, conditions: tuple[Scalar, ...], scope: Scope) -> list[_Conjunct] | None:
        """Resolve the conjuncts to relations; those of other relations are left out.  None if a name is ambiguous."""
        found: list[_Conjunct] = []
        for conjunct in dict.fromkeys(conditions):
            try:
                equality, operands = compared(conjunct), None
                if equality and equality.equal:
                    operands = scope.bind(equality.left).items, scope.bind(equality.right).items
                found.append(_Conjunct(conjunct, scope.bind(conjunct).items, operands))
            except NoSuchColumn:
                continue
            except Refused:
                if "=" in conjunct.text:
                    return None
        return found

    def _loop(
        self, kind: str, left: Logical | None, right: Logical, condition: list[Scalar], place: Place | None
    ) -> Iterator[NestedLoop]:
        if self._has_one_row(right) or (left is not None and self._has_one_row(left)):
            return
        sizes = [self._statistics(side).rows if side is not None else None for side in (left, right)]
        pairs = None if sizes[0] is None or sizes[1] is None else sizes[0] * sizes[1]
        at = next((c.place for c in condition if c.place), None) or place
        text = " AND ".join(c.shown for c in condition)
        yield NestedLoop(kind, _name(left), _name(right), text, at, pairs)

    def _has_one_row(self, relation: Logical) -> bool:
        return has_one_row(relation, self.names.definitions)

    def _statistics(self, relation: Logical) -> Statistics:
        try:
            query = self.names.standalone_query(Project(relation, (Scalar("*"),)))
        except Unsupported:
            return UNKNOWN
        return self.names.catalog.statistics(query)


def _is_reordered(join: Join) -> bool:
    """Whether Spark takes a join apart to order its relations; a LATERAL right side is computed for each left row."""
    return join.kind in _INNER and not join.using and not join.natural and not references_left(join.right)


def _joins(conjunct: _Conjunct, joined: frozenset[int], number: int) -> bool:
    """Whether a conjunct connects a relation with those that are joined already."""
    return (
        number in conjunct.relations and bool(conjunct.relations & joined) and conjunct.relations <= joined | {number}
    )


def _normal(condition: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    try:
        return normal_form(condition)
    except Unsupported:
        return condition


def _name(relation: Logical | None) -> str:
    """The name of a side for a reader."""
    match relation:
        case None:
            return "the relations before it"
        case Scan():
            name = ".".join(map(quote, relation.name))
            return name if relation.alias in (None, relation.name[-1]) else f"{name} {quote(relation.alias)}"
        case Relation() if relation.alias:
            return relation.alias
        case Join() | Nested() | LateralView():
            return " and ".join(_name(child) for child in relation.children)  # type: ignore[arg-type]
    return "a relation"


def has_one_row(node: Node, definitions: Mapping[str, Cte]) -> bool:
    """Whether a relation or query returns at most one row: an aggregate without groups, LIMIT 1, no FROM."""
    match node:
        case Scan() if node.cte in definitions:
            return has_one_row(definitions[node.cte].query, definitions)
        case Derived():
            return has_one_row(node.query, definitions)
        case Limit():
            return node.count.text in ("0", "1") or has_one_row(node.child, definitions)
        case Join():
            return all(has_one_row(side, definitions) for side in node.children)
        case With() | Wrapped() | Sort() | Nested():
            return has_one_row(node.children[-1], definitions)
        case OneRow():
            return True
        case Project():
            below: Node = node.child
            while isinstance(below, Filter):
                below = below.child
            if isinstance(below, Aggregate):
                return False
            return isinstance(below, OneRow) or any(map(aggregates_rows, node.items))
    return False
