"""What an aggregated band join computes, read into host columns, guest columns and totals; or the reason why not."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from planner.band.linear import Side
from planner.errors import Place, Unsupported
from planner.expr import Scalar, column_ref, parse, sql
from planner.expr.tokens import tokenize
from planner.logical import Aggregate, BandJoin, Filter, Project, Sort
from planner.physical.band_aggregate import HOST, TOTAL, Added, Carried, OutputColumn, RunningTotal
from planner.sql.names import NoSuchColumn
from planner.types.schema import SqlType
from rules.context import Context

_FILLERS = {
    "string": "''",
    "boolean": "false",
    "date": "DATE '1970-01-01'",
    "timestamp": "TIMESTAMP_LTZ '1970-01-01 00:00:00'",
    "timestamp_ntz": "TIMESTAMP_NTZ '1970-01-01 00:00:00'",
}
_MOST_DIGITS = 18  # of a decimal that is added up: 20 more are left for the sums
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Between, exp.In)
_PLAIN = (exp.And, exp.Or, exp.Not, exp.Is, exp.Paren, exp.Literal, exp.Null, exp.Boolean, *_COMPARISONS)


class NoRunningSums(Exception):
    """Why a block cannot be computed from running sums."""

    def __init__(self, reason: str, place: Place | None = None):
        super().__init__(reason)
        self.reason = reason
        self.place = place


@dataclass(frozen=True)
class _Used:
    """A column: its place among the sources, its side, name as written, text, and type."""

    index: int
    side: Side
    name: str
    text: str
    type: SqlType
    key: tuple[int, str]


@dataclass(frozen=True)
class AggregatedBlock:
    """The clauses of a SELECT over a band join."""

    project: Project
    join: BandJoin
    where: tuple[Scalar, ...] = ()
    having: tuple[Scalar, ...] = ()
    groups: Scalar | None = None
    sort: Scalar | None = None


@dataclass
class AggregateParts:
    """What a block computes, once it is known which side is the host."""

    host: Side
    points_are_hosts: bool
    few_guests: bool
    ansi: bool
    carried: dict[tuple[int, str], Carried] = field(default_factory=dict)
    added: dict[tuple[int, str], Added] = field(default_factory=dict)
    totals: dict[RunningTotal, None] = field(default_factory=dict)
    groups: tuple[int, ...] | None = None
    columns: list[OutputColumn] = field(default_factory=list)
    having: str = ""
    order: str = ""

    def carry(self, used: _Used) -> int:
        """The number of a host column."""
        if used.key not in self.carried:
            self.carried[used.key] = Carried(used.text, _filler(used), used.type)
        return list(self.carried).index(used.key)

    def add(self, used: _Used, *, summed: bool) -> int:
        """The number of a guest column that is counted or summed up."""
        known = self.added.get(used.key)
        if known is None or (summed and known.running is None):
            self.added[used.key] = Added(used.text, self._running(used) if summed else None)
        return list(self.added).index(used.key)

    def _running(self, used: _Used) -> str:
        if used.type.name == "decimal":
            return f"DECIMAL(38,{used.type.scale})"
        return "BIGINT" if used.type.name != "bigint" and self.few_guests else "DECIMAL(38,0)"

    def total(self, total: RunningTotal) -> int:
        """The number of a total."""
        self.totals.setdefault(total)
        return list(self.totals).index(total)


def block_of(block: Project | Sort) -> AggregatedBlock | None:
    """The parts of a SELECT over an inner band join that aggregates, with its order; None for any other."""
    project, sort = (block.child, block.clause) if isinstance(block, Sort) else (block, None)
    if not isinstance(project, Project):
        return None
    node = project.child
    where: tuple[Scalar, ...] = ()
    having: tuple[Scalar, ...] = ()
    groups: Scalar | None = None
    while isinstance(node, Filter | Aggregate):
        if isinstance(node, Aggregate):
            groups = node.groups
        elif node.clause == "WHERE":
            where = node.condition
        elif node.clause == "HAVING":
            having = node.condition
        else:
            return None
        node = node.child
    if not isinstance(node, BandJoin) or node.kind not in ("inner", "cross"):
        return None
    if groups is None and not any(_aggregates(item) for item in project.items):
        return None
    return AggregatedBlock(project, node, where, having, groups, sort)


def _aggregates(item: Scalar) -> bool:
    try:
        return any(not isinstance(call.parent, exp.Window) for call in item.tree.find_all(exp.AggFunc))
    except Unsupported:
        return False


class ItemReader:
    """Reads the items of a block.  Raises ``NoRunningSums``."""

    def __init__(self, block: AggregatedBlock, ctx: Context):
        self.block, self.ctx = block, ctx
        left = ctx.names.sources(block.join.left)
        self.sources, self.middle = left + ctx.names.sources(block.join.right), len(left)

    def host(self) -> Side | None:
        """The side that has to keep its rows: that of the groups, or of min and max; None where either may."""
        sides = {u.side: u.text for u in self.grouped()}
        if len(sides) > 1:
            raise NoRunningSums(f"{' and '.join(sides.values())}: it groups by columns of both sides")
        wanted = dict(sides)
        for tree in self._calls():
            if isinstance(tree, exp.Min | exp.Max):
                used = self.column(tree.this)
                wanted.setdefault(used.side, sql(tree))
        if len(wanted) > 1:
            raise NoRunningSums(f"{' and '.join(wanted.values())}: both sides would have to keep their rows")
        return next(iter(wanted), None)

    def _calls(self) -> list[exp.AggFunc]:
        trees = [item.tree for item in (*self.block.project.items, *self.block.having)]
        return [call for tree in trees for call in tree.find_all(exp.AggFunc)]

    def grouped(self) -> list[_Used]:
        """The columns of GROUP BY; numbers and names of items are looked up."""
        groups = self.block.groups
        if groups is None:
            return []
        if groups.plans:
            raise NoRunningSums(f"it groups by {groups.shown}, which is more than columns", groups.place)
        t = tokenize(groups.text)
        return [self._group(t.slice(lo, hi), groups) for lo, hi in t.split(0, len(t))]

    def _group(self, text: str, groups: Scalar) -> _Used:
        """A column of GROUP BY: as such, by the number of an item, or by its name where no column has it."""
        items = self.block.project.items
        more = NoRunningSums(f"it groups by {text}, which is more than a column", groups.place)
        try:
            tree: exp.Expr = parse(text, groups.place)
        except Unsupported as no:
            raise more from no
        if isinstance(tree, exp.Literal) and tree.name.isdigit() and 0 < int(tree.name) <= len(items):
            tree = items[int(tree.name) - 1].tree.unalias()
        if not isinstance(tree, exp.Column):
            raise more
        try:
            return self.column(tree)
        except NoSuchColumn as no:
            same = [i.tree.unalias() for i in items if self._named(i.tree, tree)]
            if len(same) != 1 or not isinstance(same[0], exp.Column):
                raise more from no
            return self.column(same[0])

    def _named(self, item: exp.Expr, tree: exp.Expr) -> bool:
        fold = self.ctx.names.fold
        return isinstance(item, exp.Alias) and not tree.args.get("table") and fold(item.alias) == fold(tree.name)

    def column(self, tree: exp.Expr) -> _Used:
        """The column that an expression is.  Raises ``Unresolved`` too."""
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if not isinstance(tree, exp.Column) or isinstance(tree.this, exp.Star):
            raise NoRunningSums(f"{sql(tree)} is more than a column")
        ref = column_ref(tree)
        index, column = self.ctx.names.resolve(ref, self.sources)
        if column.type is None:
            raise NoRunningSums(f"the type of {ref.text} is not known")
        side: Side = "left" if index < self.middle else "right"
        key = index, ".".join((self.ctx.names.fold(column.name), *column.field))
        return _Used(index, side, ref.parts[-1], ref.text, column.type, key)

    def read(self, parts: AggregateParts) -> AggregateParts:
        """Fill in what the block computes."""
        grouped = self.grouped()
        if self.block.groups is not None:
            parts.groups = tuple(parts.carry(u) for u in grouped)
        keys = {u.key for u in grouped}
        for item in self.block.project.items:
            tree = item.tree
            inner = tree.unalias()
            if isinstance(inner, exp.Column) and not isinstance(inner.this, exp.Star):
                used = self.column(inner)
                if used.key not in keys:
                    raise NoRunningSums(f"{item.shown} is neither grouped by nor an aggregate", item.place)
                parts.columns.append(OutputColumn(tree.alias or used.name, "host", parts.carry(used)))
            else:
                total, name = self._total(inner, parts, item.place)
                parts.columns.append(OutputColumn(tree.alias or name, "total", parts.total(total)))
        if self.block.having:
            said = [self._over_totals(c.tree, c, parts, keys) for c in self.block.having]
            parts.having = " AND ".join(f"({s})" for s in said)
        if self.block.sort:
            parts.order = self._order(self.block.sort, parts, keys)
        return parts

    def _order(self, clause: Scalar, parts: AggregateParts, keys: set[tuple[int, str]]) -> str:
        """ORDER BY over the columns that come out, and what stands below them."""
        fold = self.ctx.names.fold
        names = [fold(c.name) for c in parts.columns]
        t = tokenize(clause.text)
        said = []
        for lo, hi in t.split(1, len(t)):
            end = hi
            while end > lo + 1 and t[end - 1].word in ("ASC", "DESC", "NULLS", "FIRST", "LAST"):
                end -= 1
            tree, rest = parse(t.slice(lo, end), clause.place), t.slice(end, hi) if end < hi else ""
            one = isinstance(tree, exp.Column) and not tree.args.get("table") and names.count(fold(tree.name)) == 1
            if one or (isinstance(tree, exp.Literal) and tree.name.isdigit()):
                text = t.slice(lo, end)
            else:
                text = self._over_totals(tree, clause, parts, keys)
            said.append(f"{text} {rest}".rstrip())
        return f"{t.slice(0, 1)} {', '.join(said)}"

    def _total(self, tree: exp.Expr, parts: AggregateParts, place: Place | None) -> tuple[RunningTotal, str]:
        """An aggregate, and what Spark calls its column."""
        said = sql(tree)
        if type(tree) not in (exp.Count, exp.Sum, exp.Min, exp.Max) or tree.args.get("expressions"):
            raise NoRunningSums(f"{said}: running sums give count, sum, min and max", place)
        inner = tree.this
        if isinstance(tree, exp.Count) and isinstance(inner, exp.Star | exp.Literal):
            if isinstance(inner, exp.Literal) and inner.is_string:
                raise NoRunningSums(f"{said} is more than a count of rows", place)
            return RunningTotal(
                "count", None, None, "BIGINT"
            ), f"count({1 if isinstance(inner, exp.Star) else inner.name})"
        if isinstance(inner, exp.Distinct):
            raise NoRunningSums(f"{said}: DISTINCT needs the pairs themselves", place)
        bare = inner
        while isinstance(bare, exp.Paren):
            bare = bare.this
        if isinstance(tree, exp.Sum) and isinstance(bare, exp.Mul):
            return self._product(bare, parts, said, place)
        used = self.column(inner)
        name = f"{type(tree).__name__.lower()}({used.name})"
        mine = used.side == parts.host
        if isinstance(tree, exp.Count):
            return self._placed("count", used, parts, "BIGINT"), name
        if isinstance(tree, exp.Sum):
            return self._placed("sum", used, parts, _sum_type(used, said, place)), name
        if not mine or not parts.points_are_hosts:
            raise NoRunningSums(f"{said} of intervals cannot be told from sums at their ends", place)
        if used.type.name in ("float", "double"):
            raise NoRunningSums(f"{said}: -0.0 and 0.0 are equal and not the same", place)
        function = "min" if isinstance(tree, exp.Min) else "max"
        return RunningTotal(function, parts.carry(used), None, str(used.type)), name  # type: ignore[arg-type]

    @staticmethod
    def _placed(function: str, used: _Used, parts: AggregateParts, type_: str) -> RunningTotal:
        if used.side == parts.host:
            return RunningTotal(function, parts.carry(used), None, type_)  # type: ignore[arg-type]
        return RunningTotal(function, None, parts.add(used, summed=function == "sum"), type_)  # type: ignore[arg-type]

    def _product(
        self, tree: exp.Expression, parts: AggregateParts, said: str, place: Place | None
    ) -> tuple[RunningTotal, str]:
        """``sum(p.v * i.w)``: a factor of either side."""
        factors = [self.column(tree.this), self.column(tree.expression)]
        name = f"sum(({factors[0].name} * {factors[1].name}))"
        if not all(f.type.integral for f in factors):
            raise NoRunningSums(f"{said}: products are added up over integers only", place)
        if not parts.ansi:
            raise NoRunningSums(f"{said}: products could wrap around, since spark.sql.ansi.enabled is false", place)
        mine = [f for f in factors if f.side == parts.host]
        others = [f for f in factors if f.side != parts.host]
        if len(mine) != 1:
            raise NoRunningSums(f"{said} is more than a column of either side", place)
        if not parts.points_are_hosts and any(f.type.name == "bigint" for f in factors):
            raise NoRunningSums(f"{said}: its sums up to an end could be too long for a DECIMAL", place)
        return RunningTotal("sum", parts.carry(mine[0]), parts.add(others[0], summed=True), "BIGINT"), name

    def _over_totals(self, tree: exp.Expr, clause: Scalar, parts: AggregateParts, keys: set[tuple[int, str]]) -> str:
        """An expression over aggregates and groups, as one over the columns of the aggregate."""
        if clause.plans:
            raise NoRunningSums(f"{clause.shown} holds a subquery", clause.place)
        aliases = {self.ctx.names.fold(i.tree.alias) for i in self.block.project.items if i.tree.alias}

        def renamed(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.AggFunc):
                total, _ = self._total(node, parts, clause.place)
                return exp.column(f"{TOTAL}{parts.total(total)}")
            if isinstance(node, exp.Column):
                used = self.column(node)
                if used.key not in keys or (not node.args.get("table") and self.ctx.names.fold(node.name) in aliases):
                    raise NoRunningSums(f"{clause.shown} names more than groups", clause.place)
                return exp.column(f"{HOST}{parts.carry(used)}")
            if not isinstance(node, _PLAIN):
                raise NoRunningSums(f"{clause.shown} computes more than comparisons", clause.place)
            return node

        return sql(tree.transform(renamed))


def plain_filter(tree: exp.Expression) -> bool:
    """Whether a condition compares columns with constants and does nothing else, so that any row can be asked."""
    if isinstance(tree, exp.Cast):
        return isinstance(tree.this, exp.Literal)
    if isinstance(tree, exp.Neg):
        return isinstance(tree.this, exp.Literal)
    if isinstance(tree, exp.Column):
        return not isinstance(tree.this, exp.Star)
    if isinstance(tree, exp.In) and (tree.args.get("query") or tree.args.get("unnest")):
        return False
    return isinstance(tree, _PLAIN) and all(plain_filter(e) for e in tree.iter_expressions())


def _sum_type(used: _Used, said: str, place: Place | None) -> str:
    if used.type.integral:
        return "BIGINT"
    if used.type.name in ("float", "double"):
        raise NoRunningSums(f"{said}: a floating sum depends on the order in which it is added up", place)
    if used.type.name != "decimal" or used.type.precision > _MOST_DIGITS:
        raise NoRunningSums(f"{said}: running sums need integers, or decimals of {_MOST_DIGITS} digits at most", place)
    return f"DECIMAL({used.type.precision + 10},{used.type.scale})"


def _filler(used: _Used) -> str:
    """Any value of a column's type that is not NULL: a column of hosts is only NULL where it was so."""
    if used.type.numeric:
        return f"CAST(0 AS {used.type})"
    if used.type.name not in _FILLERS or used.type.text not in ("", used.type.name):
        raise NoRunningSums(f"{used.text} is {used.type}")
    return _FILLERS[used.type.name]
