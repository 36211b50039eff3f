"""Builds the specification of a join of streams: its statements, its stored columns and their expiry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from math import floor

from sqlglot import exp

from dovetail.planner.band.linear import Leaf
from dovetail.planner.bind.names import check_distinct_names
from dovetail.planner.errors import Refused, UnknownName
from dovetail.planner.expr import Scalar, columns_in, quote, sql
from dovetail.planner.logical import Join, Logical, Scan
from dovetail.planner.state.bounds import Bound, equalities, read_bounds, with_implied
from dovetail.planner.state.changes import COUNT, count_of
from dovetail.planner.state.shared import any_of
from dovetail.planner.state.spec import Input, Reach, Side, StoredColumn, StreamJoin, described_settings
from dovetail.rules.analysis.delta_join import Sizes
from dovetail.rules.analysis.same_source import ColumnLineage
from dovetail.rules.context import Context
from dovetail.rules.query.condition_scope import condition_scope
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.operands import as_operand
from dovetail.rules.stream.changelogs import with_count
from dovetail.rules.stream.delta_blocks import JoinOrder, Routed, routed
from dovetail.rules.stream.delta_order import delta_order
from dovetail.rules.stream.expiry import Expiries, Expiry, latest, position_of
from dovetail.rules.stream.left_blocks import SidesOfLeft, routed_left
from dovetail.rules.stream.left_joins import check_without_match, compared, key_refusal, keys_of
from dovetail.rules.stream.relations import Relation, inputs_of
from dovetail.rules.stream.stream_blocks import Shape


class Reader:
    """Builds the specification of one join."""

    def __init__(
        self, text: str, shape: Shape, relations: tuple[Relation, ...], ctx: Context, stored_row_counts: tuple[int, ...]
    ):
        self.text, self.shape, self.relations, self.ctx = text, shape, relations, ctx
        self.stored_row_counts = stored_row_counts
        self.sides = range(len(relations))
        self.inputs = inputs_of(relations)
        self.scope = ctx.scope(*(r.node for r in relations))
        self.bounds = self._bounds()
        self.keys = tuple(self._keys())

    def read(self) -> StreamJoin:
        """Build the specification."""
        if len(self.sides) == 2 and not self.keys and not self.bounds:
            raise Refused("its condition has neither an equality nor a band of the two streams")
        route = self._routed() if len(self.relations) > 2 or self.shape.lefts else None
        rows = [self._rows(r) for r in self.relations]
        reaches, marks = self._reaches()
        sides = [self._side(r, rows[n]) for n, r in enumerate(self.relations)]
        expires, finals = self._expires()
        return StreamJoin(
            self.text,
            self.shape.kind,
            tuple(self._inputs(sides, marks, expires)),
            tuple(sides),
            reaches,
            route.program if route else self._counted().program(),
            finals,
            tuple(c.shown for c in self.keys),
            self.shape.condition,
            self._meaning(),
            next((r.stream.change for r in self.relations if r.stream.change), ""),
            route.delta if route else None,
        )

    def _expires(self) -> tuple[list[Expiry], tuple[str, ...]]:
        """Return when the rows of each side expire, and when those that have no match are final."""
        conditions = [tuple(self._about(n, self.shape.on)) for n in self.sides]
        expiries = Expiries(self.relations, self.bounds, self.shape, conditions, self.ctx.names)
        expires = [expiries.matched(n) for n in self.sides]
        finals = tuple(e.position if n in self.shape.preserved else "" for n, e in enumerate(expires))
        for n in self.shape.preserved:
            if not expires[n].position:
                raise Refused(
                    f"no watermark says when a row of {self.relations[n].name} that has no match is final: "
                    f"{self.relations[1 - n].name} needs one, and the condition a bound on its time"
                )
        if self.shape.kind not in ("inner", "cross"):
            expires = [expiries.needed(n, expires) for n in self.sides]
        return expires, finals

    def _meaning(self) -> tuple[tuple[str, str], ...]:
        """Return the settings that the meaning of the query depends on."""
        settings = self.ctx.catalog.settings
        switches = settings.ansi, settings.case_sensitive, settings.double_quoted_identifiers
        ansi, case_sensitive, double_quoted = (str(switch).lower() for switch in switches)
        return described_settings((ansi, case_sensitive, settings.time_zone, double_quoted))

    def _counted(self) -> Shape:
        """Return the query, with a column that counts its rows if a stream is a changelog."""
        changed = [r.number for r in self.relations if r.stream.change]
        return with_count(self.shape, changed) if changed else self.shape

    def _routed(self) -> Routed:
        """Plan the paths of a delta join.  Raises ``Refused``, ``Unsupported``."""
        check_distinct_names(self.scope.sources)
        hinted = delta_order(self.shape.block.project.hint, self.shape.relations, self.ctx)
        known = len(self.stored_row_counts) == max(self.inputs) + 1
        sizes = Sizes({n: self.stored_row_counts[i] for n, i in enumerate(self.inputs)} if known else {})
        order = JoinOrder(self.inputs, sizes, hinted)
        if self.shape.lefts:
            return routed_left(self.shape, self._sides_of_left(), order)
        return routed(self._counted(), self.relations, self.scope, order)

    def _sides_of_left(self) -> SidesOfLeft:
        """Describe the sides of left joins.  Raises ``Refused`` if a row may have several matches."""
        keys = []
        for number, on in self.shape.lefts:
            relation = self.relations[number]
            change = relation.stream.change
            known = keys_of(relation.node, relation.read, bool(change), self.ctx)
            columns = [self.scope.column(c) for c in compared(number, on, self.scope)]
            found = [key for key in sorted(known, key=sorted) if key <= {c.name for c in columns}]
            if not found:
                raise Refused(key_refusal(relation.name, change, known))
            keys.append((number, tuple(dict.fromkeys(c.column.name for c in columns if c.name in found[0]))))
        shown = tuple(tuple(c.name for c in r.read.columns if self._needed(r, c)) for r in self.relations)
        counted = frozenset(r.number for r in self.relations if r.stream.change)
        if raising := check_without_match(self.shape, self.scope, self.ctx):
            raise Refused(raising)
        return SidesOfLeft(shown, counted, tuple(keys), self.relations, self.scope)

    def _bounds(self) -> tuple[Bound, ...]:
        """Return the distance bounds of each two sides, also those that follow over a third."""
        found: list[Bound] = []
        for pair in combinations(self.sides, 2):
            one, other = (self.relations[n].node for n in pair)
            scope = condition_scope(Join(one, other, "cross", "CROSS JOIN"), self.ctx)
            conjuncts = (
                self.shape.on
                if len(self.sides) == 2 and not self.shape.lefts
                else [c for c in self.shape.bounding(pair) if self._names(c.tree, pair)]
            )
            found += read_bounds(conjuncts, scope, pair)
        if len(self.sides) == 2 or self.shape.lefts:
            return tuple(found)
        return with_implied([self._over_bases(b) for b in found], len(self.sides))

    def _over_bases(self, bound: Bound) -> Bound:
        """Rewrite a bound so that its leaves have the same keys for all pairs of sides."""
        small = replace(bound.small, key=self.relations[bound.small_side].over_base(bound.small.text))
        large = replace(bound.large, key=self.relations[bound.large_side].over_base(bound.large.text))
        return replace(bound, small=small, large=large)

    def _names(self, tree: exp.Expression, sides: Iterable[int]) -> bool:
        """Whether an expression names columns, all of them of these sides."""
        try:
            named = self.scope.bind(tree).items
        except Refused:
            return False
        return bool(named) and named <= set(sides)

    def _keys(self) -> Iterator[Scalar]:
        """Yield the equalities of two sides."""
        for conjunct in self.shape.on:
            named = [n for o in equalities(conjunct, of_nulls=True) or () for n in self.sides if self._names(o, [n])]
            if len(set(named)) == 2:
                yield conjunct

    def _rows(self, relation: Relation) -> list[str]:
        """Return the filters of a side, over its stream: rows that fail them cannot be in the answer."""
        number = relation.number
        found = dict.fromkeys((*relation.read.filters, *self._about(number, self.shape.filters(number))))
        if number in self.shape.preserved:
            return list(found)
        keys = self.shape.filters(number) if self.shape.lefts else self.keys
        operands = [o for c in keys for o in equalities(c) or () if self._names(o, [number])]
        texts = [sql(o) for o in operands]
        if not self.shape.lefts:
            texts += [leaf.text for b in self.bounds for leaf, side in _ends(b) if side == number]
        for text in dict.fromkeys(texts):
            try:
                check_deterministic(Scalar(text))
                found[f"{as_operand(relation.over_base(text))} IS NOT NULL"] = None
            except Refused:
                continue
        return list(found)

    def _about(self, side: int, conjuncts: tuple[Scalar, ...]) -> Iterator[str]:
        """Yield the conjuncts that name columns of this side alone, over its stream."""
        for conjunct in conjuncts:
            try:
                check_deterministic(conjunct)
                if self._names(conjunct.tree, [side]):
                    yield self.relations[side].over_base(conjunct.text)
            except Refused:
                continue

    def _reaches(self) -> tuple[tuple[Reach, ...], list[list[str]]]:
        """Return the distance bounds of pairs, and the marks of each side that they compare.

        Sides that read one stream share one list of marks.
        """
        shared: dict[int, list[str]] = {}
        marks = [shared.setdefault(number, []) for number in self.inputs]
        reaches = []
        for bound in self.bounds:
            ends = []
            for leaf, side in _ends(bound):
                mark = position_of(bound, leaf, self.relations[side])
                if mark not in marks[side]:
                    marks[side].append(mark)
                ends.append((side, marks[side].index(mark)))
            reaches.append(Reach(ends[0], ends[1], floor(bound.least)))
        return tuple(reaches), marks

    def _side(self, relation: Relation, rows: list[str]) -> Side:
        shown = tuple((c.name, c.value) for c in relation.read.columns if self._needed(relation, c))
        if change := relation.stream.change:
            shown = (*shown, (COUNT, count_of(change)))
        event = relation.stream.event_time
        ticks = [r for r in rows if event is None or not self.ctx.names.is_among(event, _columns_of([r]))]
        return Side(self.inputs[relation.number], shown, _all(rows), _all(ticks))

    def _needed(self, relation: Relation, column: ColumnLineage) -> bool:
        wanted = self._wanted()
        return wanted is None or (relation.number, column.key) in wanted

    def _wanted(self) -> set[tuple[int, str]] | None:
        """Return the columns that the query names, with their sides; None for all columns."""
        found: set[tuple[int, str]] = set()
        for scalar in (*self.shape.block.project.items, *self.shape.on, *self.shape.where):
            tree = scalar.tree
            if isinstance(tree, exp.Star) or tree.find(exp.Star):
                return None
            try:
                found |= {(self.scope.item(c), c.name) for c in self.scope.bind(scalar).columns}
            except UnknownName:
                return None
        return found

    def _inputs(self, sides: list[Side], marks: list[list[str]], expires: list[Expiry]) -> Iterator[Input]:
        stored = 0
        names = self.ctx.names
        for number in range(max(self.inputs) + 1):
            readers = [n for n in self.sides if self.inputs[n] == number]
            relation = self.relations[readers[0]]
            event = relation.stream.event_time
            values = [value for n in readers for _, value in sides[n].shown]
            conditions = [c for n in readers for c in (sides[n].rows, expires[n].position) if c]
            needed = names.folded(_columns_of([*values, *conditions, *marks[readers[0]]]))
            named = [(name, type_) for name, type_ in relation.stream.columns if names.is_among(name, needed)]
            columns = tuple(StoredColumn(f"c{stored + n}", name, type_) for n, (name, type_) in enumerate(named))
            stored += len(columns)
            lasting = self._expires_of([expires[n] for n in readers], [sides[n].rows for n in readers])
            yield Input(
                relation.name,
                _name(relation.read.base),
                columns,
                any_of([sides[n].ticks for n in readers]),
                any_of([sides[n].rows for n in readers]),
                quote(event) if event else "",
                relation.stream.time,
                relation.stream.delay,
                tuple(marks[readers[0]]),
                lasting.position,
                lasting.description,
                event is not None and names.is_among(event, _columns_of(values)),
                relation.stream.change,
            )

    @staticmethod
    def _expires_of(expires: list[Expiry], rows: list[str]) -> Expiry:
        """Return when a row has expired on every side that reads it."""
        if not all(e.position for e in expires) or len({*expires}) == 1 or len({*rows}) == 1:
            return latest(expires, prefix="")
        description = " and ".join(dict.fromkeys(e.description for e in expires))
        cases = [
            f"CASE WHEN {r} THEN {e.position} END" if r else e.position for e, r in zip(expires, rows, strict=True)
        ]
        return Expiry(f"greatest({', '.join(cases)})", description)


def _name(base: Logical) -> str:
    """Return the name of a table, as written in the query."""
    assert isinstance(base, Scan)
    return base.text


def _ends(bound: Bound) -> tuple[tuple[Leaf, int], ...]:
    return (bound.small, bound.small_side), (bound.large, bound.large_side)


def _columns_of(texts: list[str]) -> set[str]:
    """Return the columns that expressions over a stream name."""
    found: set[str] = set()
    for text in texts:
        for column in columns_in(Scalar(text).tree):
            root = column
            while isinstance(root, exp.Dot):
                root = root.this
            found.add(root.parts[0].name)  # type: ignore[attr-defined]
    return found


def _all(conditions: list[str]) -> str:
    return " AND ".join(f"({c})" for c in conditions)
