"""Plans left joins of changelogs as delta joins: their paths, and statements with a sign for each row.

A row of f has at most one match in d, so a left join is a sum of inner joins:

    f ⟕ d  =  (f, NULLs)  +  f ⋈ d  −  f ⋈ (d with NULLs)

    d(f)      d(f) × (own, not own), LEFT JOIN ±curr(d) ON own AND …      a row for NULLs, and two for each match
    d(d)      ±d(d) JOIN prev(f) ON …                                    a row with the match, and one against NULLs

``±d`` has each row of d twice: as it is, and with NULLs in its columns and the other sign; ON compares the columns as
they are, which are repeated under other names.  The count of a joined row, in ``COUNT``, is the product of the counts.
So changes can be stored as they arrive: those that cancel in d cancel in the answer.  If d only grows, new rows of f
look it up by a plain LEFT JOIN.

If the ON of one left join has an equality with a column of another, the latter is an inner join in the path of the
former: without a match the column is NULL, and equal to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dovetail.planner.bind.scope import Scope
from dovetail.planner.expr import Scalar, quote, sql
from dovetail.planner.expr.substitution import replace_columns
from dovetail.planner.hints.blocks import DELTA_ORDER, without
from dovetail.planner.logical import JOIN_KEYWORDS, Join, Logical, Opaque
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.state.bounds import equalities
from dovetail.planner.state.changes import COUNT
from dovetail.planner.state.delta import DeltaJoin, DeltaPath, Lookup, Value, version_of
from dovetail.planner.state.program import EpochProgram, Read, Step, Version
from dovetail.rules.analysis.delta_join import JoinGraph, Sizes, delta_join
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.query_block import where
from dovetail.rules.stream.delta_blocks import Conjuncts, JoinOrder, Routed
from dovetail.rules.stream.relations import Relation
from dovetail.rules.stream.stream_blocks import Shape, alias_of, scan_of

_SIGN = "__dt_sign"


@dataclass(frozen=True)
class SidesOfLeft:
    """The sides of a join: their ``columns``, and those that are ``counted``, since their rows are changes.

    ``keys``: the key columns of each relation of a left join, by number.  ``scope``: that of ON.
    """

    columns: tuple[tuple[str, ...], ...]
    counted: frozenset[int]
    keys: tuple[tuple[int, tuple[str, ...]], ...]
    relations: tuple[Relation, ...]
    scope: Scope


def routed_left(shape: Shape, sides: SidesOfLeft, order: JoinOrder) -> Routed:
    """Plan the paths of a join with left joins.  Raises ``Refused`` with the reason if that is impossible."""
    names = tuple(alias_of(relation) for relation in shape.relations)
    planned = [_Path(n, shape, sides, names).planned(order) for n in range(len(names))]
    delta = DeltaJoin(names, order.inputs, tuple(path for path, _ in planned), sides.keys)
    return Routed(delta, EpochProgram(tuple(step for _, step in planned)))


class _Path:
    """The path of the new rows of one side."""

    def __init__(self, start: int, shape: Shape, sides: SidesOfLeft, names: tuple[str, ...]):
        self.start, self.shape, self.sides, self.names = start, shape, sides, names
        self.lefts = dict(shape.lefts)
        for conjunct in (*shape.on, *shape.where):
            check_deterministic(conjunct)
        self.needed = self._needed()
        inner = [c for n, own in self.lefts.items() if n in self.needed for c in own]
        every = (*shape.inner_on, *inner)
        self.later = [c for c in every if not sides.scope.bind(c.tree).items <= self.needed]
        self.read = Conjuncts(tuple(c for c in every if c not in self.later), sides.relations, sides.scope)

    def planned(self, order: JoinOrder) -> tuple[DeltaPath, Step]:
        """The path, and its step of the program."""
        inner, alone = self._inner(order)
        steps = [self.read.on(lookup) for lookup in inner]
        lefts = [self._left(n) for n in self.lefts if n not in self.needed]
        path = DeltaPath(self.start, (*inner, *lefts), alone)
        shown = [*steps, *(self.lefts[x.input] for x in lefts)]
        conditions = [" AND ".join(c.shown for c in on) for on in shown]
        if conditions and (above := " AND ".join(c.shown for c in (*self.later, *self.shape.where))):
            conditions[-1] += f", where {above}"
        statement = self._statement(inner, steps, lefts, tuple(self.read.all[n] for n in alone))
        return path, Step(path.flow(conditions), statement)

    def _inner(self, order: JoinOrder) -> tuple[list[Lookup], tuple[int, ...]]:
        """The lookups of the inner joins, and the numbers of the conditions on the new rows alone."""
        own = sorted(self.needed)
        to = {number: n for n, number in enumerate(own)}
        graph = JoinGraph(
            tuple(self.names[n] for n in own),
            tuple(replace(e, left=_moved(e.left, to), right=_moved(e.right, to)) for e in self.read.equalities),
            tuple(frozenset(to[n] for n in named) for named in self.read.named),
            tuple(order.inputs[n] for n in own),
        )
        known = Sizes({to[n]: rows for n, rows in order.sizes.rows.items() if n in to})
        found = delta_join(graph, sizes=known, order=[to[n] for n in order.hinted if n in to]).paths[to[self.start]]
        lookups = [
            replace(
                x,
                input=own[x.input],
                version=version_of(self.start, own[x.input]),
                key=tuple((text, _moved(value, own)) for text, value in x.key),
            )
            for x in found.lookups
        ]
        return lookups, found.conditions

    def _needed(self) -> frozenset[int]:
        """Return the sides that need a row for this path to return one."""
        found = set(range(len(self.names))) - self.lefts.keys()
        waiting = [self.start] if self.start in self.lefts else []
        while waiting:
            number = waiting.pop()
            found.add(number)
            for operand in (o for c in self.lefts[number] for o in equalities(c) or ()):
                named = self.sides.scope.bind(operand).items
                if isinstance(operand.unnest(), exp.Column) and len(named) == 1:
                    waiting += (named & self.lefts.keys()) - found
        return frozenset(found)

    def _left(self, number: int) -> Lookup:
        """Return the lookup of a left join."""
        key = []
        for e in Conjuncts(self.lefts[number], self.sides.relations, self.sides.scope).equalities:
            for value, other in ((e.left, e.right), (e.right, e.left)):
                if value[0] == number and isinstance(other[0], int):
                    key.append((value[1], (other[0], other[1])))
        return Lookup(number, version_of(self.start, number), tuple(key), left=True)

    def _statement(
        self, inner: list[Lookup], steps: list[tuple[Scalar, ...]], lefts: list[Lookup], alone: tuple[Scalar, ...]
    ) -> str:
        signed = self.start in self.lefts
        tree = (self._signed if signed else self._scan)(Read(Version.NEW, self.start))
        above = [*alone, *self.later]
        if signed:
            above = [self._as_it_is(c, self.start) for c in above]
            steps = [tuple(self._as_it_is(c, self.start) for c in on) for on in steps]
        for lookup, on in zip(inner, steps, strict=True):
            tree = Join(tree, self._scan(lookup.read), "inner", JOIN_KEYWORDS["inner"], on)
        counts = [f"{self._alias(n)}.{COUNT}" for n in sorted(self.needed) if n in self.sides.counted]
        if signed and self.start not in self.sides.counted:
            counts.append(f"{self._alias(self.start)}.{COUNT}")
        for lookup in lefts:
            number, on = lookup.input, self.lefts[lookup.input]
            if number not in self.sides.counted:
                tree = Join(tree, self._scan(lookup.read), "left", JOIN_KEYWORDS["left"], on)
                continue
            own, count = f"__dt_left_{number + 1}", f"{self._alias(number)}.{COUNT}"
            twice = Opaque(Scalar(f"(VALUES (true), (false)) AS {own} (own)"))
            tree = Join(tree, twice, "cross", JOIN_KEYWORDS["cross"])
            on = (Scalar(f"{own}.own"), *(self._as_it_is(c, number) for c in on))
            tree = Join(tree, self._signed(lookup.read), "left", JOIN_KEYWORDS["left"], on)
            above.append(Scalar(f"(NOT {own}.own OR {count} IS NOT NULL)"))
            counts.append(f"coalesce({count}, 1)")
        block = self.shape.block
        items = (*block.project.items, Scalar(f"{' * '.join(counts) or '1'} AS {COUNT}"))
        rows = where(tree, (*above, *self.shape.where))
        return to_sql(block.over(rows, items=items, hint=without(block.project.hint, DELTA_ORDER)))

    def _alias(self, number: int) -> str:
        return quote(self.names[number])

    def _scan(self, read: Read) -> Logical:
        return scan_of(read, self.names[read.side])

    def _signed(self, read: Read) -> Logical:
        """Return each row of a version twice: as it is, and as NULLs with the other sign; columns also unmasked."""
        number = read.side
        items = [f"IF({_SIGN} > 0, {quote(c)}, NULL) AS {quote(c)}" for c in self.sides.columns[number]]
        items += [f"{quote(c)} AS {_hidden(n)}" for n, c in enumerate(self.sides.columns[number])]
        items.append(f"{_SIGN}{f' * {COUNT}' if number in self.sides.counted else ''} AS {COUNT}")
        rows = f"SELECT *, explode(array(1, -1)) AS {_SIGN} FROM {read.view}"
        return Opaque(Scalar(f"(SELECT {', '.join(items)} FROM ({rows})) AS {self._alias(number)}"))

    def _as_it_is(self, conjunct: Scalar, number: int) -> Scalar:
        """Rewrite a condition on a side with signs over its columns before they became NULL."""

        def plain(node: exp.Expression) -> exp.Expression:
            found = self.sides.scope.column(node)
            if self.sides.scope.item(found) != number:
                return node
            hidden = _hidden(self.sides.columns[number].index(found.column.name))
            column: exp.Expression = exp.column(hidden, table=self.names[number], quoted=True)
            for field in found.column.field:
                column = exp.Dot(this=column, expression=exp.to_identifier(field, quoted=True))
            return column

        return Scalar(sql(replace_columns(conjunct.tree, plain)))


def _hidden(n: int) -> str:
    return f"__dt_as_{n}"


def _moved(value: tuple[int | str, str], to: dict[int, int] | list[int]) -> Value:
    assert isinstance(value[0], int)
    return to[value[0]], value[1]
