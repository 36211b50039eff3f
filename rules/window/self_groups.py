"""Rewrites a block that joins a source with itself within a band and aggregates the pairs, as sums over windows.

Each row is in as many pairs as there are rows in its band, and windows compute the totals of these pairs.  If the row
alone determines the group, the totals of a group's rows add up to the totals of the group's pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dovetail.planner.errors import NoSuchColumn, Refused, UnknownName
from dovetail.planner.expr import Scalar, name_of_item, output_name, parse, quote, sql
from dovetail.planner.expr.aggregate_calls import Call, calls, outside, replaced
from dovetail.planner.expr.substitution import substitute_columns
from dovetail.planner.logical import Aggregate, Filter, Join, Logical, Sort, Windows, map_expressions
from dovetail.planner.logical.band_window import BandWindow, WindowedSource
from dovetail.planner.sql.to_sql import refuse_stars
from dovetail.rules.analysis.same_source import RelationLineage
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.query_block import QueryBlock, where
from dovetail.rules.window.frame_aggregates import FrameAggregates
from dovetail.rules.window.self_band import Pair, SelfBand


@dataclass
class Groups:
    """One such block.  Making it raises ``Refused`` where it is another one."""

    block: QueryBlock
    join: Join
    readings: tuple[RelationLineage, ...]
    row: int
    ctx: Context

    def __post_init__(self) -> None:
        scope = self.ctx.scope(self.join)
        if len(scope.sources) != 2:
            raise Refused("a side of the join is more than one relation")
        relation = self.join.right if self.row else self.join.left
        self.relation = relation
        self.left = self.join.kind == "left"
        first, second = self.readings
        self.pair = Pair(self.ctx, relation, (0, self.row), (0, 1 - self.row), (first, second), scope)
        over = self.join.condition if self.left else (*self.join.condition, *self.block.condition)
        for conjunct in (*self.join.condition, *self.block.condition):
            check_deterministic(conjunct)
        band = self.pair.read(over)
        if band is None:
            raise Refused("")
        self.band: SelfBand = band
        self.filters = self.block.condition if self.left else band.row_filters
        below: list[str] = []
        if not self.left:
            self.band, below = self._below(band)
        self.totals = FrameAggregates(self.pair, self.band, nulls=self.left)
        for conjunct in self.filters if self.left else ():
            if self.pair.side(conjunct.tree) != "left":
                raise Refused(f"{conjunct.shown} comes after the LEFT JOIN", conjunct.place)
        self.counted = "" if self.left else self.totals.count()
        self.items = tuple(self._item(item) for item in self.block.project.items)
        self.grouped = tuple(self._clause(clause) for clause in self.block.below)
        self.below = (*below, *(f"{c} IS NOT NULL" for c in self.band.needed)) if not self.left else ()

    def _below(self, band: SelfBand) -> tuple[SelfBand, list[str]]:
        """Move filters on both rows of a pair below the window, where each is evaluated once."""
        same = [c for c in band.row_filters if self.pair.text(c).text in band.match_filters]
        texts = [self.pair.text(c).text for c in same]
        self.filters = tuple(c for c in band.row_filters if c not in same)
        texts += [f"{band.inequality_column} IS NOT NULL"]  # a condition on every row
        kept = tuple(k for k in band.match_filters if k not in texts)
        return replace(band, row_filters=self.filters, match_filters=kept), texts[:-1]

    @property
    def _rows(self) -> str:
        """Return the number of rows of the join that a row is in."""
        if not self.left:
            return self.counted
        return f"greatest({self.totals.count()}, 1)"

    def choice(self) -> BandWindow:
        """The block, with its ORDER BY, as written and as windows."""
        ordered = self.ordered(self.block.sort) if self.block.sort else None  # may need windows of its own
        own = tuple(dict.fromkeys((*self.filters, *self.band.row_filters)))
        source = WindowedSource(
            self.relation, self.band.keys, own, self.band.match_conditions, self.totals.rescans_frame, joined=True
        )
        other = replace(ordered, child=self.other()) if ordered else self.other()
        return BandWindow(self.block.query, other, self.band.description, (source,))

    def other(self) -> Logical:
        """The block as windows."""
        conditions = self.filters if self.left else (Scalar(f"{self.counted} > 0"), *self.filters)
        tree = where(self.totals.relation(self.relation, self.below), conditions)
        return replace(self.block, below=self.grouped).over(tree, items=self.items)

    def _clause(self, node: Filter | Windows | Aggregate) -> Filter | Aggregate:
        if isinstance(node, Filter):
            return replace(node, condition=tuple(self._over_totals(c) for c in node.condition))
        assert isinstance(node, Aggregate)
        return node if node.is_all else map_expressions(node, self._key)

    def _key(self, key: Scalar) -> Scalar:
        """Rewrite a grouping key over the columns of the row; aliases of items stay unchanged."""
        if key.plans:
            raise Refused(f"it groups by {key.shown}", key.place)
        try:
            return self._of_row(key)
        except NoSuchColumn:
            if not isinstance(key.tree, exp.Column) or key.tree.args.get("table"):
                raise
            return key

    def _of_row(self, scalar: Scalar) -> Scalar:
        """An expression that a row of a group decides: of its columns, or of keys that are equal on both sides."""
        check_deterministic(scalar)
        refuse_stars(scalar)
        side = self.pair.side(scalar.tree)
        if side in ("left", None):
            return self.pair.text(scalar)
        if not self.left:
            moved = self.pair.text(scalar)
            if {c.text for c in moved.columns} <= {*self.band.keys} or all(self._is_key(c.text) for c in moved.columns):
                return moved
        raise Refused(f"{scalar.shown} differs among the rows in a band", scalar.place)

    def _is_key(self, text: str) -> bool:
        return any(Scalar(k).columns[0].parts[-1] == Scalar(text).columns[0].parts[-1] for k in self.band.keys)

    def _over_totals(self, scalar: Scalar) -> Scalar:
        """An expression over groups, over the totals of their rows."""
        found = calls(scalar)
        if scalar.plans:
            raise Refused(f"{scalar.shown} holds a subquery", scalar.place)
        if not found:
            return scalar if self._of_items(scalar, NoSuchColumn) else self._of_row(scalar)
        rest = outside(scalar, found)
        refuse_stars(rest)
        check_deterministic(rest)
        texts = [self._total(call) for call in found]
        moved = substitute_columns(scalar, self._outside_calls)
        return replaced(moved, again := calls(moved), dict(zip(again, texts, strict=True)).__getitem__)

    def _outside_calls(self, column: exp.Expression) -> str | None:
        """A column over the row; None for one in an aggregate."""
        return None if column.find_ancestor(exp.AggFunc) else self._of_row(Scalar(sql(column))).text

    def _of_items(self, scalar: Scalar, unknown: type[Refused]) -> bool:
        """Whether an expression only uses names of items, which are ``unknown`` as columns."""
        names = self.ctx.names
        aliases = {names.folded((name_of_item(item.tree),)) for item in self.block.project.items}
        try:
            self.pair.side(scalar.tree)
        except unknown:
            return bool(scalar.columns) and all(names.folded(c.parts) in aliases for c in scalar.columns)
        except UnknownName:
            return False
        return False

    def _item(self, item: Scalar) -> Scalar:
        tree = item.tree
        if item.text == "*" or item.text.endswith("*"):
            raise Refused(f"{item.shown} shows all columns", item.place)
        new = self._over_totals(item) if calls(item) else self._of_row(item)
        if isinstance(tree, exp.Alias) or new.text == item.text:
            return new
        return Scalar(f"{new.text} AS {quote(self._name(item))}", (), item.place)

    def _name(self, item: Scalar) -> str:
        """The name that Spark gives to an item without one."""
        tree = item.tree
        if isinstance(tree, exp.Column):
            return tree.name
        found = calls(item)
        if len(found) == 1 and found[0].text == item.text and not found[0].distinct:
            inner = found[0].argument
            argument = "1" if inner is None else inner.tree.name if isinstance(inner.tree, exp.Column) else ""
            if inner is None and not item.text.endswith("*)"):
                argument = str(parse(item.text).this.name)
            if argument:
                return f"{item.text[: item.text.index('(')].strip().lower()}({argument})"
        return output_name(item)

    def _total(self, call: Call) -> str:
        """An aggregate over the pairs of a group."""
        if call.argument is None:
            return f"coalesce(sum({self._rows}), 0)"
        if self.pair.side(call.argument.tree) == "left":
            return self._of_rows(call, call.argument)
        if self.left and not isinstance(call.argument.tree, exp.Column):
            raise Refused(f"{call.text}: its value without a match is not known")
        argument = self.totals.argument(call)
        if call.function == "count":
            return f"coalesce(sum({self.totals.count(argument)}), 0)"
        type_ = self.totals.type_of(argument)
        if call.function == "sum":
            text, sum_ = self.totals.sum(argument, type_)
            exact = type_.name in ("bigint", "decimal")
            return f"CAST(sum({text}) AS {sum_})" if exact else f"sum({text})"
        if call.function == "avg":
            if not type_.numeric or type_.name == "decimal":
                raise Refused(f"{call.text}: an average of {type_} would be rounded or cast differently")
            text = self.totals.real_sum(argument)
            return f"sum({text}) / nullif(sum({self.totals.count(argument)}), 0)"
        return f"{call.function}({self.totals.extreme(call.function, argument)})"

    def _of_rows(self, call: Call, argument: Scalar) -> str:
        """An aggregate of the row's own columns, to which it is the same how many pairs the row is in."""
        check_deterministic(argument)
        if not call.distinct and call.function not in ("min", "max"):
            raise Refused(f"{call.text} counts a row once for each of its pairs")
        return f"{call.function}({'DISTINCT ' if call.distinct else ''}{self.pair.text(argument).text})"

    def ordered(self, written: Sort) -> Sort:
        """The ORDER BY above the block, over the totals of its groups."""

        def over_totals(key: Scalar) -> Scalar:
            return key if self._of_items(key, Refused) else self._over_totals(key)  # an item's name comes first

        return map_expressions(written, over_totals)
