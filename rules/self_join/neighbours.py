"""Finds relations that are joined with the row a fixed number of steps before or after each of their rows.

Both relations read one query that numbers its rows (``analysis/numbering.py``): ``x.k = y.k AND y.rn = x.rn - 1``.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Derived, Logical, Scan
from dovetail.rules.analysis.equivalence_classes import EquivalenceClasses, FromScope, Scopes, Value
from dovetail.rules.analysis.numbering import Numbering, numberings
from dovetail.rules.analysis.same_source import RelationLineage, quoted_column
from dovetail.rules.context import Context
from dovetail.rules.query.from_items import FromItem
from dovetail.rules.query.query_block import QueryBlock


@dataclass(frozen=True)
class RowOffset:
    """``right = left + steps``: two columns of numbers, in one conjunct."""

    left: Value
    right: Value
    steps: int


@dataclass(frozen=True)
class Neighbour:
    """``y`` is the row ``steps`` after the row of ``x`` (before it, if negative) by ``numbering``."""

    x: FromItem
    y: FromItem
    numbering: Numbering
    steps: int


def steps_in(tree: exp.Expression) -> tuple[exp.Column, exp.Column, int] | None:
    """Read ``a = b + n``, ``a - b = n`` and the like as (b, a, n); None for anything else."""
    comparison = compared(tree)
    if comparison is None or comparison.sign != "=":
        return None
    plus: list[exp.Column] = []
    minus: list[exp.Column] = []
    steps = 0

    def add(node: exp.Expr, sign: int) -> bool:
        nonlocal steps
        match node:
            case exp.Paren():
                return add(node.this, sign)
            case exp.Neg():
                return add(node.this, -sign)
            case exp.Add():
                return add(node.this, sign) and add(node.expression, sign)
            case exp.Sub():
                return add(node.this, sign) and add(node.expression, -sign)
            case exp.Column():
                (plus if sign > 0 else minus).append(node)
                return True
            case exp.Literal() if node.is_int:
                steps -= sign * int(node.name)
                return True
        return False

    whole = add(comparison.left, 1) and add(comparison.right, -1)
    return (minus[0], plus[0], steps) if whole and steps and len(plus) == len(minus) == 1 else None


class NeighbourFinder:
    """Finds neighboring rows in one FROM."""

    def __init__(self, block: QueryBlock, ctx: Context):
        self.ctx = ctx
        self.from_items = block.from_items
        self.sight = FromScope(block.from_items.found, ctx)
        self.conjuncts = block.conjuncts
        self._numberings: dict[Logical, tuple[Numbering, ...]] = {}

    def find(self) -> list[Neighbour]:
        """All relations that can go, in the order of FROM; each hangs on one that stays."""
        found: list[Neighbour] = []
        for y in self.from_items.found[1:]:
            gone = {f.y.number for f in found}
            for x in self.from_items.found[: y.number]:
                if x.number < y.first or x.kind != "inner" or x.number in gone or y.kind not in ("inner", "left"):
                    continue
                one = self.neighbour(x, y)
                if one:
                    found.append(one)
                    break
        return found

    def neighbour(self, x: FromItem, y: FromItem) -> Neighbour | None:
        """Return ``y`` as a neighbor of ``x``; None if it is not, with a reason if it almost is."""
        shown, other = self.sight.reading(x.number), self.sight.reading(y.number)
        if isinstance(shown, str) or isinstance(other, str) or shown.key != other.key or shown.key[0] != "query":
            return None
        own = self.own(y)
        both = {x.number, y.number}
        steps = [s for c in own if (s := self.step(c, self.sight.scopes_of_on(y))) and {s.left[0], s.right[0]} == both]
        if not steps:
            return None
        try:
            return self.checked(x, y, shown, other, steps)
        except Refused as no:
            self.ctx.decline(f"the join with a next or previous row stays a join: {no}", own[0].place)
            return None

    def checked(
        self, x: FromItem, y: FromItem, shown: RelationLineage, other: RelationLineage, steps: list[RowOffset]
    ) -> Neighbour | None:
        """The neighbor; None where the columns compared number nothing.  Raises ``Refused``."""
        if shown.filters or other.filters:
            raise Refused("one side is filtered, so its next row is not the next row of the other side")
        if not y.free:
            raise Refused("the relation to remove is the first in parentheses, where LATERAL cannot see the other")
        scopes = self.sight.scopes_of_on(y)
        equal = EquivalenceClasses.of(e for c in self.own(y) if (e := self.sight.equality(c, scopes)))
        for numbering in self.numberings(base_query(shown, self.ctx)):
            number = quoted_column(numbering.number)
            for step in steps:
                if (step.left[1], step.right[1]) != (number, number):
                    continue
                parts = map(quoted_column, numbering.parts)
                how = [equal.between((x.number, part), (y.number, part)) for part in parts]
                if None in how:
                    part = numbering.parts[how.index(None)]
                    raise Refused(f"the numbering restarts for each {part}, which the join does not compare")
                if numbering.known and "<=>" in how:
                    raise Refused("rows whose key is NULL may tie, and <=> matches them")
                away = step.steps if step.left[0] == x.number else -step.steps
                return Neighbour(x, y, numbering, away)
        return None

    def numberings(self, query: Logical) -> tuple[Numbering, ...]:
        """The columns that number the rows of a query.  Raises ``Refused``, ``Unsupported``."""
        if query not in self._numberings:
            self._numberings[query] = numberings(query, self.ctx)
        return self._numberings[query]

    def own(self, y: FromItem) -> tuple[Scalar, ...]:
        """The conjuncts that hold of a row of ``y`` and its matches."""
        return self.conjuncts if y.kind == "inner" else y.on

    def step(self, conjunct: Scalar, scopes: Scopes) -> RowOffset | None:
        """Read a conjunct as a step from one column to another."""
        try:
            columns = None if conjunct.plans else steps_in(conjunct.tree)
            if columns is None:
                return None
            ends = [self.sight.resolve(column, scopes) for column in columns[:2]]
            values = [self.sight.value(number, column.name) for number, column in ends]
        except Refused:
            return None
        return RowOffset(values[0], values[1], columns[2])


def base_query(found: RelationLineage, ctx: Context) -> Logical:
    """Return the query that is the base of a lineage."""
    base = found.base
    if isinstance(base, Scan):
        return ctx.definitions[base.cte].query
    assert isinstance(base, Derived)
    return base.query
