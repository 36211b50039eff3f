"""Splits the aggregates of a band join into columns of the grouped side, columns of the summed side, and totals."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from dovetail.planner.band.linear import Side
from dovetail.planner.bind.select_list import items_named
from dovetail.planner.errors import Place, Refused
from dovetail.planner.expr import Scalar, sql, without_parentheses
from dovetail.planner.logical import BandJoin, Sort
from dovetail.planner.physical.band_aggregate import GROUPED, TOTAL, Added, Carried, OutputColumn, RunningTotal
from dovetail.planner.types.schema import SqlType
from dovetail.planner.types.typed import known_type
from dovetail.rules.context import Context
from dovetail.rules.query.grouping import grouping_expressions
from dovetail.rules.query.query_block import QueryBlock

_MOST_DIGITS = 18  # of a decimal that is added up: 20 more are left for the sums
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Between, exp.In)
_PLAIN = (exp.And, exp.Or, exp.Not, exp.Is, exp.Paren, exp.Literal, exp.Null, exp.Boolean, *_COMPARISONS)


@dataclass(frozen=True)
class _Used:
    """A column: its place among the sources, its side, name as written, text, and type."""

    index: int
    side: Side
    name: str
    text: str
    type: SqlType
    key: tuple[int, str]


@dataclass
class AggregateParts:
    """The output of a block, after the grouped side has been chosen."""

    grouped_side: Side
    points_are_grouped: bool
    few_summed_rows: bool
    ansi: bool
    carried: dict[tuple[int, str], Carried] = field(default_factory=dict)
    added: dict[tuple[int, str], Added] = field(default_factory=dict)
    totals: dict[RunningTotal, None] = field(default_factory=dict)
    groups: tuple[int, ...] | None = None
    columns: list[OutputColumn] = field(default_factory=list)
    having: str = ""
    order: str = ""

    def carry(self, used: _Used) -> int:
        """Add a column of the grouped side; return its number."""
        if used.key not in self.carried:
            self.carried[used.key] = Carried(used.text, _filler(used), used.type)
        return list(self.carried).index(used.key)

    def add(self, used: _Used, *, summed: bool) -> int:
        """Add a column of the summed side that is counted or summed; return its number."""
        known = self.added.get(used.key)
        if known is None or (summed and known.running is None):
            self.added[used.key] = Added(used.text, self._running(used) if summed else None)
        return list(self.added).index(used.key)

    def _running(self, used: _Used) -> str:
        if used.type.name == "decimal":
            return f"DECIMAL(38,{used.type.scale})"
        return "BIGINT" if used.type.name != "bigint" and self.few_summed_rows else "DECIMAL(38,0)"

    def total(self, total: RunningTotal) -> int:
        """The number of a total."""
        self.totals.setdefault(total)
        return list(self.totals).index(total)


class ItemReader:
    """Reads the items of a block.  Raises ``Refused``."""

    def __init__(self, block: QueryBlock, join: BandJoin, ctx: Context):
        self.block, self.ctx = block, ctx
        self.scope = ctx.scope(join.left, join.right)

    def grouped_side(self) -> Side | None:
        """The side that has to keep its rows: that of the groups, or of min and max; None where either may."""
        sides = {u.side: u.text for u in self.grouped()}
        if len(sides) > 1:
            raise Refused(f"GROUP BY uses columns of both sides ({', '.join(sides.values())})")
        wanted = dict(sides)
        for tree in self._calls():
            if isinstance(tree, exp.Min | exp.Max):
                used = self.column(tree.this)
                wanted.setdefault(used.side, sql(tree))
        if len(wanted) > 1:
            raise Refused(f"{' and '.join(wanted.values())}: both sides would have to keep their rows")
        return next(iter(wanted), None)

    def _calls(self) -> list[exp.AggFunc]:
        trees = [item.tree for item in (*self.block.project.items, *self.block.having)]
        return [call for tree in trees for call in tree.find_all(exp.AggFunc)]

    def grouped(self) -> list[_Used]:
        """The columns of GROUP BY."""
        keys = grouping_expressions(self.block, self.scope)
        if self.block.aggregate and not keys:
            raise Refused("GROUP BY ALL groups by nothing")
        return [self.column(key.tree, key.place) for key in keys]

    def column(self, tree: exp.Expr, place: Place | None = None) -> _Used:
        """The column that an expression is.  Raises ``Refused`` too."""
        tree = without_parentheses(tree)
        if not isinstance(tree, exp.Column) or isinstance(tree.this, exp.Star):
            raise Refused(f"{sql(tree)} is an expression; compute it as a column of a subquery in FROM", place)
        found = self.scope.column(tree)
        ref, column = found.ref, found.column
        type_ = known_type(column.type, ref.text)
        side: Side = "right" if self.scope.item(found) else "left"
        key = found.relation, ".".join((found.name, *column.field))
        return _Used(found.relation, side, ref.parts[-1], ref.text, type_, key)

    def read(self, parts: AggregateParts) -> AggregateParts:
        """Read the output of the block into ``parts``."""
        grouped = self.grouped()
        if self.block.aggregate:
            parts.groups = tuple(parts.carry(u) for u in grouped)
        keys = {u.key for u in grouped}
        for item in self.block.project.items:
            tree = item.tree
            inner = tree.unalias()
            if isinstance(inner, exp.Column) and not isinstance(inner.this, exp.Star):
                used = self.column(inner)
                if used.key not in keys:
                    raise Refused(f"{item.shown} is neither grouped by nor an aggregate", item.place)
                parts.columns.append(OutputColumn(tree.alias or used.name, "grouped", parts.carry(used)))
            else:
                total, name = self._total(inner, parts, item.place)
                parts.columns.append(OutputColumn(tree.alias or name, "total", parts.total(total)))
        if self.block.having:
            conditions = [self._over_totals(c.tree, c, parts, keys) for c in self.block.having]
            parts.having = " AND ".join(f"({c})" for c in conditions)
        if self.block.sort:
            parts.order = self._order(self.block.sort, parts, keys)
        return parts

    def _order(self, sort: Sort, parts: AggregateParts, keys: set[tuple[int, str]]) -> str:
        """Return ORDER BY over the output columns and the columns below them."""
        keys_of_sort = []
        for key in sort.keys:
            tree = key.tree
            same = [c for c in parts.columns if self.ctx.names.is_same(c.name, tree.name)]
            one = isinstance(tree, exp.Column) and not tree.args.get("table") and len(same) == 1
            if one or (isinstance(tree, exp.Literal) and tree.name.isdigit()):
                keys_of_sort.append(key.text)
            else:
                keys_of_sort.append(self._over_totals(tree, key, parts, keys))
        return f"{sort.keyword} {sort.listed(keys_of_sort)}"

    def _total(self, tree: exp.Expr, parts: AggregateParts, place: Place | None) -> tuple[RunningTotal, str]:
        """Read an aggregate; also return the name that Spark gives its column."""
        shown = sql(tree)
        if type(tree) not in (exp.Count, exp.Sum, exp.Min, exp.Max) or tree.args.get("expressions"):
            raise Refused(f"{shown}: running sums give count, sum, min and max", place)
        inner = tree.this
        if isinstance(tree, exp.Count) and isinstance(inner, exp.Star | exp.Literal):
            if isinstance(inner, exp.Literal) and inner.is_string:
                raise Refused(f"{shown} does not count rows", place)
            return RunningTotal(
                "count", None, None, "BIGINT"
            ), f"count({1 if isinstance(inner, exp.Star) else inner.name})"
        if isinstance(inner, exp.Distinct):
            raise Refused(f"{shown}: DISTINCT needs the pairs themselves", place)
        bare = without_parentheses(inner)
        if isinstance(tree, exp.Sum) and isinstance(bare, exp.Mul):
            return self._product(bare, parts, shown, place)
        used = self.column(inner)
        name = f"{type(tree).__name__.lower()}({used.name})"
        mine = used.side == parts.grouped_side
        if isinstance(tree, exp.Count):
            return self._placed("count", used, parts, "BIGINT"), name
        if isinstance(tree, exp.Sum):
            return self._placed("sum", used, parts, _sum_type(used, shown, place)), name
        if not mine or not parts.points_are_grouped:
            raise Refused(f"{shown} of intervals cannot be computed from running sums", place)
        if used.type.approximate:
            raise Refused(f"{shown}: -0.0 and 0.0 are equal but not identical", place)
        function = "min" if isinstance(tree, exp.Min) else "max"
        return RunningTotal(function, parts.carry(used), None, str(used.type)), name  # type: ignore[arg-type]

    @staticmethod
    def _placed(function: str, used: _Used, parts: AggregateParts, type_: str) -> RunningTotal:
        if used.side == parts.grouped_side:
            return RunningTotal(function, parts.carry(used), None, type_)  # type: ignore[arg-type]
        return RunningTotal(function, None, parts.add(used, summed=function == "sum"), type_)  # type: ignore[arg-type]

    def _product(
        self, tree: exp.Expression, parts: AggregateParts, shown: str, place: Place | None
    ) -> tuple[RunningTotal, str]:
        """``sum(p.v * i.w)``: a factor of either side."""
        factors = [self.column(tree.this), self.column(tree.expression)]
        name = f"sum(({factors[0].name} * {factors[1].name}))"
        if not all(f.type.integral for f in factors):
            raise Refused(f"{shown}: sums of products are exact for integers only", place)
        if not parts.ansi:
            raise Refused(f"{shown}: products could wrap around, since spark.sql.ansi.enabled is false", place)
        mine = [f for f in factors if f.side == parts.grouped_side]
        others = [f for f in factors if f.side != parts.grouped_side]
        if len(mine) != 1:
            raise Refused(f"{shown} multiplies columns of one side; compute that product in a subquery in FROM", place)
        if not parts.points_are_grouped and any(f.type.name == "bigint" for f in factors):
            raise Refused(f"{shown}: its running sums could overflow DECIMAL", place)
        return RunningTotal("sum", parts.carry(mine[0]), parts.add(others[0], summed=True), "BIGINT"), name

    def _over_totals(self, tree: exp.Expr, clause: Scalar, parts: AggregateParts, keys: set[tuple[int, str]]) -> str:
        """An expression over aggregates and groups, as one over the columns of the aggregate."""
        if clause.plans:
            raise Refused(f"{clause.shown} holds a subquery", clause.place)

        def renamed(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.AggFunc):
                total, _ = self._total(node, parts, clause.place)
                return exp.column(f"{TOTAL}{parts.total(total)}")
            if isinstance(node, exp.Column):
                used = self.column(node)
                if used.key not in keys or items_named(node, self.block.project.items, self.ctx.names):
                    raise Refused(f"{clause.shown} uses more than the grouping columns", clause.place)
                return exp.column(f"{GROUPED}{parts.carry(used)}")
            if not isinstance(node, _PLAIN):
                raise Refused(f"{clause.shown} computes more than comparisons", clause.place)
            return node

        return sql(tree.transform(renamed))


def plain_filter(tree: exp.Expression) -> bool:
    """Whether a condition only compares columns with constants, so that it can be evaluated on any row."""
    if isinstance(tree, exp.Cast):
        return isinstance(tree.this, exp.Literal)
    if isinstance(tree, exp.Neg):
        return isinstance(tree.this, exp.Literal)
    if isinstance(tree, exp.Column):
        return not isinstance(tree.this, exp.Star)
    if isinstance(tree, exp.In) and (tree.args.get("query") or tree.args.get("unnest")):
        return False
    return isinstance(tree, _PLAIN) and all(plain_filter(e) for e in tree.iter_expressions())


def _sum_type(used: _Used, shown: str, place: Place | None) -> str:
    if used.type.integral:
        return "BIGINT"
    if used.type.approximate:
        raise Refused(f"{shown}: a floating sum depends on the order in which it is added up", place)
    if used.type.name != "decimal" or used.type.precision > _MOST_DIGITS:
        raise Refused(f"{shown}: running sums need integers, or decimals of {_MOST_DIGITS} digits at most", place)
    return f"DECIMAL({used.type.precision + 10},{used.type.scale})"


def _filler(used: _Used) -> str:
    """Return a non-NULL value of a column's type, so that a column of the grouped side is NULL only where it was."""
    if (filler := used.type.filler) is None:
        raise Refused(f"{used.text} is {used.type}")
    return filler
