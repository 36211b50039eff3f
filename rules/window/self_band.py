"""Which rows of a source belong to each of its rows, where a query compares the source with itself.

    y.k = x.k AND y.ts BETWEEN x.ts - 600 AND x.ts AND y.kind = 'error' AND y.id <> x.id

``x`` is the row, ``y`` what belongs to it.  Both read the same source, so that all of it can be said over x alone: a
window with keys, an order and a frame, conditions on what is added up, and a column that tells rows apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from planner.band.ends import comparisons
from planner.band.linear import NotABand, Side, Vocabulary
from planner.band.offsets import Offsets, read_offsets
from planner.conditions.compared import Comparison, compared
from planner.errors import Place
from planner.expr import ColumnRef, Scalar, column_ref, columns_in, quote, sql
from planner.expr import canonical as spelling
from planner.logical import Logical, Project
from planner.sql.names import Source, Unresolved
from planner.types.schema import SqlType
from planner.types.trying import may_raise
from rules.analysis.computed import columns_of, first_said, raising_columns, surely
from rules.analysis.same_source import SourceRows, bound
from rules.context import Context
from rules.query.aggregate_calls import calls
from rules.query.correlation import words_of
from rules.query.moving import Home, check_deterministic, home, moved

KEY_TYPES = ("tinyint", "smallint", "int", "bigint", "decimal", "string", "boolean", "date", "timestamp")
_PAIRED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.And)


class NoWindow(Exception):
    """Why a query cannot be computed from windows over its source."""

    def __init__(self, reason: str, place: Place | None = None):
        super().__init__(reason)
        self.reason = reason
        self.place = place


@dataclass(frozen=True)
class SelfBand:
    """What belongs to a row, in SQL over the row's own relation.

    ``needed``: columns whose NULL means that nothing belongs to the row; ``own``: conditions on the row, as written;
    ``kept``: conditions on what belongs; ``apart``: a column in which both differ, or nothing.
    """

    keys: tuple[str, ...]
    column: str
    offsets: Offsets
    needed: tuple[str, ...]
    own: tuple[Scalar, ...]
    kept: tuple[str, ...]
    apart: str
    said: str

    @property
    def meets_itself(self) -> bool:
        """Whether every row with keys and a value of the column belongs to itself."""
        low, high = self.offsets.low, self.offsets.high
        return not (self.own or self.kept or self.apart) and (low or 0) <= 0 <= (high or 0)

    @property
    def asked(self) -> tuple[Scalar, ...]:
        """The conditions on what belongs, as they are asked of a row."""
        return tuple(map(Scalar, self.kept))


@dataclass
class Pair:
    """A row's relation and the one compared with it: where both stand in nested scopes, and what they read."""

    ctx: Context
    relation: Logical
    row: tuple[int, int]
    other: tuple[int, int]
    readings: tuple[SourceRows, SourceRows]
    scopes: tuple[tuple[Source, ...], ...]
    after: tuple[Source, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.after = self.ctx.names.sources(self.relation)
        if len(self.after) != 1 or not self.after[0].names or self.after[0].columns is None:
            raise NoWindow("the relation has no name, or its columns are not known")

    def check_computed(
        self, band: SelfBand, block: Project, filters: Sequence[Scalar], computed: Iterable[str], pairs: SelfBand | None
    ) -> None:
        """Raise ``NoWindow`` where a window would compute for all rows what raises an error on one that no pair needs.

        ``filters``: what ``block`` asks of the row, in order; ``computed``: what it computes of each row that meets
        them.  ``pairs``: the band as written where rows without a partner are left out.  Spark asks first of all
        whether the columns of the band are NULL, so that they are computed of all rows on a side without filters.
        """
        if not (raising := raising_columns(self.relation, self.ctx)):
            return
        names, safe = self.ctx.names, set[str]()
        joined = columns_of((*band.keys, band.column), names)
        if not self.readings[0].filters:
            safe |= surely((filters[0].text,), names) if filters else surely(computed, names)
            safe |= joined if pairs and not filters else set()
        if not self.readings[1].filters:
            safe |= surely(band.kept[:1], names) if band.kept else joined
        if pairs:
            safe |= surely((*(c.text for c in pairs.own[:1]), *pairs.kept[:1]), names)
        words = words_of(block, names, but=self.relation)
        if item := first_said(raising, words, safe):
            raise NoWindow(f"{item.shown} could raise an error on a row that no pair needs")

    def computed(self, block: Project, sides: tuple[Side, ...]) -> Iterator[str]:
        """What a block computes of each of its rows from one of these sides: items, and arguments of aggregates."""
        for item in block.items:
            if item.plans or item.tree.find(exp.Filter):
                continue
            if item.text.endswith("*") and not item.tree.find(exp.AggFunc):
                whole = item.columns[0].parts[:-1] in ((), (self.name,))
                yield from (quote(c.name) for c in self.after[0].columns or () if whole)
                continue
            arguments = (c.argument for c in calls(item) if c.argument is not None)
            yield from (e.text for e in (item, *arguments) if self.side(e.tree) in sides)

    def home(self, ref: ColumnRef) -> Home:
        """Where a column comes from; a field of a struct is refused."""
        found = home(ref, self.scopes, self.ctx.names)
        if found.field:
            raise Unresolved(f"{ref.text} is a field of a column")
        return found

    def side(self, tree: exp.Expression) -> Side | str | None:
        """``left`` for columns of the row, ``right`` for those of the other one; ``both``; ``else``; None for none."""
        found = set()
        for column in columns_in(tree):
            at = self.home(column_ref(column))[:2]
            found.add("left" if at == self.row else "right" if at == self.other else "else")
        if "else" in found:
            return "else"
        return "both" if len(found) > 1 else next(iter(found), None)

    def base(self, ref: ColumnRef) -> str:
        """A column of either as what it is of the source."""
        at = self.home(ref)
        read = self.readings[0 if at[:2] == self.row else 1]
        return read.value(at.column, self.ctx.names.fold)

    def own_name(self, value: str) -> str:
        """The name under which the row's relation shows a value of the source."""
        name = self.readings[0].named(value)
        if name is None:
            raise NoWindow(f"{value} is not among the columns of {self.name}")
        return name

    @property
    def name(self) -> str:
        """The name of the row's relation."""
        return self.after[0].names[-1]

    def text(self, scalar: Scalar) -> Scalar:
        """An expression over both as one over the row's relation alone."""

        def target(found: Home) -> tuple[int, str]:
            if found[:2] == self.row:
                return 0, found.column
            if found[:2] != self.other:
                raise NoWindow(f"{scalar.shown} names a further relation", scalar.place)
            return 0, self.own_name(self.readings[1].value(found.column, self.ctx.names.fold))

        return moved(scalar, self.scopes, self.after, target, self.ctx.names)

    def type_of(self, text: str) -> SqlType | None:
        """The type of an expression over the row's relation."""
        found = self.ctx.names.type_of(Scalar(text).tree, self.after) or self.ctx.type_of(text, self.relation)
        return SqlType(found.name, found.precision, found.scale) if found and _is_plain(found) else found

    def never_raising(self, scalar: Scalar) -> str:
        """An expression over the other side, said over the row's relation.

        Raises ``NoWindow`` where it could raise an error on a row that is in no pair.
        """
        check_deterministic(scalar)
        said = self.text(scalar)
        if may_raise(said.tree, lambda t: self.type_of(sql(t)), ansi=self.ctx.catalog.settings.ansi):
            raise NoWindow(f"{scalar.shown} could raise an error on a row that no pair needs", scalar.place)
        return said.text

    @property
    def words(self) -> Vocabulary:
        """What the names in the band mean."""

        def side(tree: exp.Expression) -> Side | None:
            found = self.side(tree)
            if found == "else":
                raise NotABand(f"{sql(tree)} names a further relation")
            return found  # type: ignore[return-value]

        def canonical(tree: exp.Expression) -> str:
            def say(ref: ColumnRef) -> exp.Expression:
                left = self.home(ref)[:2] == self.row
                return exp.column(self.base(ref), "left" if left else "right", quoted=True)

            return spelling(bound(tree, say))

        settings = self.ctx.catalog.settings
        return Vocabulary(
            side,
            lambda t: self.type_of(self.text(Scalar(sql(t))).text),
            canonical,
            settings.ansi,
            settings.fixed_zone,
        )

    def read(self, conjuncts: tuple[Scalar, ...]) -> SelfBand | None:
        """What belongs to a row by these conditions; None where no comparison keeps both within a band.

        Raises ``NoWindow``, ``NotABand``, ``Unresolved``, ``Unsupported`` with the reason where a window cannot tell.
        """
        keys: list[str] = []
        needed: list[str] = []
        own: list[Scalar] = []
        kept = [self._of_source(text) for text in self.readings[1].filters_beyond(self.readings[0])]
        apart = ""
        ranges: list[Scalar] = []
        for conjunct in conjuncts:
            tree = conjunct.tree
            while isinstance(tree, exp.Paren):
                tree = tree.this
            side = "else" if conjunct.plans else self.side(tree)
            if side == "left":
                own.append(conjunct)
            elif side == "right":
                kept.append(self.never_raising(conjunct))
            elif side == "both" and (comparison := compared(tree)) and comparison.equal:
                keys.append(key := self._column(comparison, conjunct))
                needed += [key] if comparison.sign == "=" else []
            elif side == "both" and comparison and comparison.sign == "<>" and not apart:
                apart = self._column(comparison, conjunct)
                needed.append(apart)
            elif side == "both" and isinstance(tree, _PAIRED):
                ranges.append(conjunct)
            else:
                raise NoWindow(f"{conjunct.shown} is decided pair by pair", conjunct.place)
        if not ranges:
            return None
        if self.readings[0].filters_beyond(self.readings[1]):
            raise NoWindow(f"{self.name} leaves out rows that it is compared with")
        column, offsets = self._offsets(ranges)
        needed.append(column)
        if apart:
            kept.append(f"{apart} IS NOT NULL")
        said = " AND ".join(c.shown for c in conjuncts)
        return SelfBand(
            tuple(keys), column, offsets, tuple(dict.fromkeys(needed)), tuple(own), tuple(kept), apart, said
        )

    def _column(self, comparison: Comparison, conjunct: Scalar) -> str:
        """The one column that an (in)equality compares."""
        ends = comparison.operands
        if not comparison.columns or len({self.base(column_ref(e)) for e in ends}) != 1:
            raise NoWindow(f"{conjunct.shown} compares more than one column of the source", conjunct.place)
        text = self._own_column(ends[0])
        type_ = self.type_of(text)
        if type_ is None or type_.name not in KEY_TYPES or (type_.text and type_.name != "decimal"):
            raise NoWindow(f"{conjunct.shown}: no key for a window is of type {type_}", conjunct.place)
        return text

    def _own_column(self, tree: exp.Expression) -> str:
        name = self.own_name(self.base(column_ref(tree)))
        return f"{quote(self.name)}.{quote(name)}"

    def _offsets(self, ranges: list[Scalar]) -> tuple[str, Offsets]:
        columns = {self._own_column(c): None for r in ranges for e in comparisons(r.tree) for c in _columns(e[0], e[1])}
        if len(columns) != 1:
            raise NoWindow(f"{ranges[0].shown} compares more than one column of the source", ranges[0].place)
        column = next(iter(columns))
        type_ = self.type_of(column)
        if type_ is None:
            raise NoWindow(f"the type of {column} is not known", ranges[0].place)
        return column, read_offsets((r.tree for r in ranges), type_, self.words)

    def _of_source(self, text: str) -> str:
        """A filter of the other side that is written over the source."""

        def say(ref: ColumnRef) -> exp.Expression:
            value = sql(exp.column(ref.parts[-1], quoted=True))
            return exp.column(self.own_name(value), self.name, quoted=True)

        said = Scalar(sql(bound(Scalar(text).tree, say)))
        inside = Pair(self.ctx, self.relation, (0, 0), (1, 0), self.readings, (self.after, self.after))
        return inside.never_raising(said)


def _columns(*trees: exp.Expression) -> list[exp.Column]:
    return [column for tree in trees for column in tree.find_all(exp.Column)]


def _is_plain(type_: SqlType) -> bool:
    """Whether a type is all told by its name: not a CHAR, a collation, a nested type."""
    return not type_.precision and type_.text in ("", type_.name)
