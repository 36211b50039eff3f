"""Reads self-join conditions as a window: its partition keys, its order, its frame, and its filters.

    y.k = x.k AND y.ts BETWEEN x.ts - 600 AND x.ts AND y.kind = 'error' AND y.id <> x.id

``x`` is the row, ``y`` a row in its band.  Both read the same source, so a window over x alone expresses the join: its
partition keys, order and frame, filters on the aggregated rows, and a column that excludes the row itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from dovetail.planner.band.ends import comparisons
from dovetail.planner.band.linear import ConditionScope, Side
from dovetail.planner.band.offsets import Offsets, read_offsets
from dovetail.planner.bind.scope import BoundColumn, Scope
from dovetail.planner.conditions.compared import Comparison, compared
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, quote, sql, without_parentheses
from dovetail.planner.expr import canonical as canonical_text
from dovetail.planner.logical import Logical
from dovetail.planner.types.schema import SqlType
from dovetail.planner.types.typed import known_type
from dovetail.rules.analysis.same_source import RelationLineage, rewrite_over_output
from dovetail.rules.analysis.speculation import check_speculation
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import check_deterministic

_PAIRED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.And)


@dataclass(frozen=True)
class SelfBand:
    """The rows in the band of a row, as SQL over the row's own relation.

    ``needed``: columns whose NULL means that nothing belongs to the row; ``row_filters``: conditions on the row, as
    written; ``match_filters``: conditions on what belongs; ``inequality_column``: a column in which both differ, or
    nothing.
    """

    keys: tuple[str, ...]
    column: str
    offsets: Offsets
    needed: tuple[str, ...]
    row_filters: tuple[Scalar, ...]
    match_filters: tuple[str, ...]
    inequality_column: str
    description: str

    @property
    def match_conditions(self) -> tuple[Scalar, ...]:
        """Return the filters on the rows in a band, as conditions on a row."""
        return tuple(map(Scalar, self.match_filters))


@dataclass
class Pair:
    """The relation of a row and the one compared with it: their positions in nested scopes, and their lineage."""

    ctx: Context
    relation: Logical
    row: tuple[int, int]
    other: tuple[int, int]
    readings: tuple[RelationLineage, RelationLineage]
    scope: Scope
    after: Scope = field(init=False)

    def __post_init__(self) -> None:
        self.after = self.ctx.scope(self.relation)
        sources = self.after.sources
        if len(sources) != 1:
            raise Refused("the relation is a join in parentheses")
        sources[0].known_columns()

    def side(self, tree: exp.Expression) -> Side | str | None:
        """``left`` for columns of the row, ``right`` for those of the other one; ``both``; ``else``; None for none."""
        found = set()
        for column in self.scope.bind(tree).columns:
            at = column.check_no_field().owner
            found.add("left" if at == self.row else "right" if at == self.other else "else")
        if "else" in found:
            return "else"
        return "both" if len(found) > 1 else next(iter(found), None)

    def base(self, column: BoundColumn) -> str:
        """Return the source's value of a column of either relation."""
        read = self.readings[0 if column.owner == self.row else 1]
        return read.value(column.check_no_field())

    def own_name(self, value: str) -> str:
        """Return the name of a source's value in the row's relation."""
        name = self.readings[0].output_name(value)
        if name is None:
            raise Refused(f"{value} is not among the columns of {self.name}")
        return name

    @property
    def name(self) -> str:
        """The name of the row's relation."""
        return self.after.sources[0].names[-1]

    def text(self, scalar: Scalar) -> Scalar:
        """An expression over both as one over the row's relation alone."""

        def target(found: BoundColumn) -> tuple[tuple[int, int], str]:
            if found.owner == self.row:
                return (0, 0), found.column.name
            if found.owner != self.other:
                raise Refused(f"{scalar.shown} uses another relation", scalar.place)
            return (0, 0), self.own_name(self.readings[1].value(found))

        return self.scope.bind(scalar).rebind(self.after, target)

    def type_of(self, text: str) -> SqlType | None:
        """The type of an expression over the row's relation."""
        return self.after.bind(Scalar(text)).type or self.ctx.spark_type(text, self.relation)

    def _type_over_row(self, tree: exp.Expression) -> SqlType | None:
        return self.type_of(self.text(Scalar(sql(tree))).text)

    def over_row(self, scalar: Scalar) -> str:
        """Rewrite an expression over the other side over the row's relation.  Raises ``Refused``."""
        check_deterministic(scalar)
        return self.text(scalar).text

    def check_guarded(self, scalar: Scalar) -> None:
        """Raise ``UnsafeSpeculation`` for a condition behind another one that could raise: AND is no guard here."""
        check_speculation((scalar,), self._type_over_row, self.ctx)

    @property
    def condition_scope(self) -> ConditionScope:
        """The scope of the band's condition."""

        def side(tree: exp.Expression) -> Side | None:
            found = self.side(tree)
            if found == "else":
                raise Refused(f"{sql(tree)} uses another relation")
            return found  # type: ignore[return-value]

        def canonical(tree: exp.Expression) -> str:
            def base(column: BoundColumn) -> exp.Expression:
                return exp.column(self.base(column), "left" if column.owner == self.row else "right", quoted=True)

            return canonical_text(self.scope.bind(tree).replace(base))

        settings = self.ctx.catalog.settings
        return ConditionScope(side, self._type_over_row, canonical, settings.ansi, settings.has_fixed_offset_zone)

    def read(self, conjuncts: tuple[Scalar, ...]) -> SelfBand | None:
        """Read the band of a row from its conditions; None if no comparison bounds both sides.

        Raises ``Refused`` with the reason where a window cannot compute it.
        """
        keys: list[str] = []
        needed: list[str] = []
        own: list[Scalar] = []
        kept = [self._of_source(text) for text in self.readings[1].filters_beyond(self.readings[0])]
        apart = ""
        ranges: list[Scalar] = []
        for conjunct in conjuncts:
            tree = without_parentheses(conjunct.tree)
            side = "else" if conjunct.plans else self.side(tree)
            comparison = compared(tree) if side == "both" else None
            if side == "left":
                own.append(conjunct)
            elif side == "right":
                if kept:
                    self.check_guarded(conjunct)
                kept.append(self.over_row(conjunct))
            elif comparison and comparison.equal:
                keys.append(key := self._column(comparison, conjunct))
                needed += [key] if comparison.sign == "=" else []
            elif comparison and comparison.sign == "<>" and not apart:
                apart = self._column(comparison, conjunct)
                needed.append(apart)
            elif side == "both" and isinstance(tree, _PAIRED):
                ranges.append(conjunct)
            else:
                raise Refused(f"{conjunct.shown} depends on both rows of a pair", conjunct.place)
        if not ranges:
            return None
        if self.readings[0].filters_beyond(self.readings[1]):
            raise Refused(f"{self.name} filters out rows that it is compared with")
        column, offsets = self._offsets(ranges)
        needed.append(column)
        if apart:
            kept.append(f"{apart} IS NOT NULL")
        description = " AND ".join(c.shown for c in conjuncts)
        return SelfBand(
            tuple(keys), column, offsets, tuple(dict.fromkeys(needed)), tuple(own), tuple(kept), apart, description
        )

    def _column(self, comparison: Comparison, conjunct: Scalar) -> str:
        """The one column that an (in)equality compares."""
        ends = comparison.operands
        if not comparison.columns or len({self.base(self.scope.column(e)) for e in ends}) != 1:
            raise Refused(f"{conjunct.shown} compares more than one column of the source", conjunct.place)
        text = self._own_column(ends[0])
        type_ = self.type_of(text)
        if type_ is None or not type_.exact:
            raise Refused(f"{conjunct.shown}: {type_} cannot be a partition key of a window", conjunct.place)
        return text

    def _own_column(self, tree: exp.Expression) -> str:
        name = self.own_name(self.base(self.scope.column(tree)))
        return f"{quote(self.name)}.{quote(name)}"

    def _offsets(self, ranges: list[Scalar]) -> tuple[str, Offsets]:
        columns = {self._own_column(c): None for r in ranges for e in comparisons(r.tree) for c in _columns(e[0], e[1])}
        if len(columns) != 1:
            raise Refused(f"{ranges[0].shown} compares more than one column of the source", ranges[0].place)
        column = next(iter(columns))
        type_ = known_type(self.type_of(column), column, ranges[0].place)
        engine = self.ctx.catalog.settings.engine
        if type_.name == "date" and not engine.frames_of_dates:
            raise Refused(f"{column} is a DATE, whose RANGE windows have other rows on {engine.name}", ranges[0].place)
        return column, read_offsets((r.tree for r in ranges), type_, self.condition_scope)

    def _of_source(self, text: str) -> str:
        """A filter of the other side that is written over the source."""
        own = Scalar(rewrite_over_output(self.readings[0], (self.name,), text))
        inside = Pair(self.ctx, self.relation, (0, 0), (1, 0), self.readings, replace(self.after, outer=self.after))
        return inside.over_row(own)


def _columns(*trees: exp.Expression) -> list[exp.Column]:
    return [column for tree in trees for column in tree.find_all(exp.Column)]
