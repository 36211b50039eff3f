"""Reads a statement whose aggregates can be estimated: SELECT groups, arithmetic over counts, sums and averages.

    SELECT s.device, count(*) AS n, avg(e.amount) FROM e JOIN s ON … GROUP BY s.device

    groups      s.device
    arguments   e.amount
    totals      count(*), sum(amount), count(amount)
    columns     group 0; total 0; total 1 / total 2

FROM and WHERE stay as they are, apart from the relation that is sampled.  ORDER BY and HAVING are left to the exact
answer.

    round(avg(x), 2)  CAST(sum(x) AS DECIMAL(20, 2))  coalesce(sum(x), 0)      the aggregate alone
    sum(x) / nullif(count(*), 0)  try_divide(sum(x), count(*))                 sum(x) / count(*)
    count_if(x > 3)  count(*) FILTER (WHERE x > 3)                             count(CASE WHEN x > 3 THEN 1 END)

An interval is then of the value before it is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot import exp

from dovetail.planner.bind.scope import Scope
from dovetail.planner.errors import QueryError, Refused
from dovetail.planner.estimate.clusters import ROWS, Product, products_of
from dovetail.planner.estimate.expression import TOTAL, totals_in
from dovetail.planner.expr import Scalar, has_star, sql
from dovetail.planner.expr.aggregate_calls import Call, calls, replaced
from dovetail.planner.expr.calls import repeated_otherwise
from dovetail.planner.expr.substitution import without_alias
from dovetail.planner.logical import Cte, Limit, Logical, Scan, SetOp, Sort, Statement, expressions
from dovetail.rules.context import Context
from dovetail.rules.estimate.sampled_relation import CLUSTER_ROWS, SampledRelation, find_sampled_relation
from dovetail.rules.query.grouping import grouping_expressions
from dovetail.rules.query.query_block import QueryBlock, read_block

_INSTEAD = "Estimates cannot be computed: {}. Run the statement with opt.sql()"


@dataclass(frozen=True)
class EstimatedColumn:
    """A column of the result: a group, by its number, or an expression of totals.

    ``present``: the totals that count the values behind it; it is NULL if one of them is zero.
    """

    group: int | None = None
    tree: exp.Expression | None = None
    present: tuple[int, ...] = ()


@dataclass
class EstimatedQuery:
    """A statement whose aggregates can be estimated; see the module for the fields."""

    block: QueryBlock
    sampled: SampledRelation
    groups: list[Scalar] = field(default_factory=list)
    arguments: list[Scalar] = field(default_factory=list)
    totals: list[str] = field(default_factory=lambda: ["count(*)", f"max({CLUSTER_ROWS})"])
    columns: list[EstimatedColumn] = field(default_factory=list)

    @property
    def products(self) -> tuple[Product, ...]:
        """The products of totals whose sums over clusters give all intervals, and show which values are NULL."""
        trees = [column.tree for column in self.columns if column.tree is not None]
        present = ((n,) for column in self.columns for n in column.present)
        return tuple(dict.fromkeys((*products_of(((ROWS,), *(totals_in(tree) or () for tree in trees))), *present)))

    @property
    def counts_all_rows(self) -> bool:
        """Whether count(*) is the number of rows of the relation that is sampled, which is known beforehand."""
        alone = self.block.tree is self.sampled.relation
        return alone and not self.sampled.rest and not self.groups

    def is_count(self, number: int) -> bool:
        """Whether a column of the result is a count."""
        tree = self.columns[number].tree
        return isinstance(tree, exp.Column) and self.totals[int(tree.name[len(TOTAL) :])].startswith("count(")

    @property
    def postponed(self) -> tuple[str, ...]:
        """The clauses that are left to the exact answer."""
        having = ("HAVING",) if self.block.having else ()
        return (*having, *(node.keyword.upper() for node in self.block.above if isinstance(node, Sort)))


def read_estimate(query: Logical, ctx: Context) -> EstimatedQuery:
    """Read a statement.  Raises ``QueryError`` if it cannot be estimated, with the reason and its place."""
    try:
        return _read(query, ctx)
    except Refused as no:
        raise QueryError(_INSTEAD.format(no.reason.rstrip(".")), no.place) from no


def _read(query: Logical, ctx: Context) -> EstimatedQuery:
    if isinstance(query, Statement):
        raise Refused(f"{query.detail} is no query; give its SELECT alone")
    if isinstance(query, SetOp):
        raise Refused(f"{query.keyword.upper()} combines two queries; estimate each of them")
    block = read_block(query)
    if block is None:
        raise Refused("it is more than one SELECT … FROM …, or has no FROM")
    _check_clauses(block)
    _check_repeatable(query)
    ctx.define({n.key: n for n in query.walk() if isinstance(n, Cte)})
    scope = ctx.scope(block.tree)
    found = EstimatedQuery(block, find_sampled_relation(query, block, ctx))
    reader = _Reader(found, scope)
    for item in block.project.items:
        found.columns.append(reader.column(item))
    if all(column.tree is None for column in found.columns):
        raise Refused("no item of its select list is an aggregate")
    for key in grouping_expressions(block, scope):
        reader.group(key)
    return found


def _check_repeatable(query: Logical) -> None:
    for node in query.walk():
        if isinstance(node, Scan) and (node.as_of is not None or "TABLESAMPLE" in node.suffix.upper()):
            raise Refused(f"{node.detail} returns other rows each time it is read")
        for scalar in expressions(node):
            if scalar.known is not None and (odd := repeated_otherwise(scalar.known)):
                raise Refused(f"{sql(odd)} has another value each time it is computed", scalar.place)


def _check_clauses(block: QueryBlock) -> None:
    for clause in block.above:
        if isinstance(clause, Limit):
            raise Refused(
                f"{clause.keyword.upper()} {clause.count.shown} picks groups by values that are only estimated",
                clause.count.place,
            )
    if not block.is_grouped:
        raise Refused("windows and QUALIFY compare groups whose values are only estimated")
    if block.project.quantifier.upper() == "DISTINCT":
        raise Refused("DISTINCT counts values that no sample has met")


class _Reader:
    """Reads the items of a select list into the groups, arguments and totals of a query."""

    def __init__(self, query: EstimatedQuery, scope: Scope):
        self.query, self.scope = query, scope

    def column(self, item: Scalar) -> EstimatedColumn:
        """Read an item of the select list."""
        if item.plans:
            raise Refused(f"{item.shown} has a subquery beside the aggregates", item.place)
        if has_star(item.tree):
            raise Refused(f"{item.shown} is no aggregate", item.place)
        try:
            expression = plain_aggregates(without_alias(item))
            found = calls(expression)
            if not found:
                return EstimatedColumn(group=self.group(expression))
            present: list[int] = []
            tree = replaced(expression, found, lambda call: self._aggregate(call, present)).tree
        except Refused as no:
            raise Refused(no.reason, item.place) from no
        if totals_in(tree) is None:
            raise Refused(f"{expression.shown} is more than aggregates and numbers with + - * /", item.place)
        return EstimatedColumn(tree=tree, present=tuple(dict.fromkeys(present)))

    def group(self, expression: Scalar) -> int:
        """Return the number of a group, which is added if it is new."""
        if expression.plans:
            raise Refused(f"{expression.shown} groups by a subquery", expression.place)
        for column in expression.columns:
            self.scope.column(column)  # Spark would read the name of another item
        return _index(self.query.groups, expression)

    def _aggregate(self, call: Call, present: list[int]) -> str:
        """Return the expression of totals for an aggregate, and add the totals that count its values."""
        if call.distinct:
            _refuse(call, "counts values that no sample has met")
        if call.function not in ("count", "sum", "avg"):
            _refuse(call, "depends on single rows, which a sample does not have")
        if call.argument is None:
            return f"{TOTAL}{ROWS}"
        argument = f"__dt_argument{_index(self.query.arguments, call.argument)}"
        count = _index(self.query.totals, f"count({argument})")
        if call.function == "count":
            return f"{TOTAL}{count}"
        present.append(count)
        total = _index(self.query.totals, f"coalesce(sum(CAST({argument} AS DOUBLE)), 0D)")
        return f"{TOTAL}{total}" if call.function == "sum" else f"{TOTAL}{total} / {TOTAL}{count}"


def _refuse(call: Call, why: str) -> NoReturn:
    raise Refused(f"{call.text} {why}")


def _index(values: list[str] | list[Scalar], value: str | Scalar) -> int:
    """Return the position of a value in a list, to which it is added if it is new."""
    if value not in values:
        values.append(value)  # type: ignore[arg-type]
    return values.index(value)  # type: ignore[arg-type]


_TRIED = {"try_sum": exp.Sum, "try_avg": exp.Avg}


def plain_aggregates(expression: Scalar) -> Scalar:
    """An expression with plain aggregates in the place of these; itself where it has none of them."""
    tree: exp.Expr = expression.tree
    while (new := tree.transform(_plain)) != tree:
        tree = new
    return expression if tree == expression.tree else Scalar(sql(tree), expression.plans, expression.place)


def _plain(tree: exp.Expr) -> exp.Expr:
    match tree:
        case exp.Filter(this=exp.Count() | exp.Sum() | exp.Avg() as call) if not isinstance(call.this, exp.Distinct):
            return _where(call, tree.expression.this)
        case exp.AnonymousAggFunc(expressions=[argument]) if tree.name.lower() == "count_if":
            return _where(exp.Count(this=exp.Star()), argument)
        case exp.AnonymousAggFunc(expressions=[argument]) if kind := _TRIED.get(tree.name.lower()):
            return kind(this=argument)
        case exp.SafeDivide() if tree.find(exp.AggFunc):  # not within an aggregate, where a divisor may be zero
            return exp.Div(this=tree.this, expression=tree.expression)
        case exp.Coalesce(expressions=[exp.Literal(this="0")]) | exp.Nullif(expression=exp.Literal(this="0")):
            return _inner(tree)
        case exp.Round() | exp.Cast():
            return _inner(tree)
    return tree


def _inner(tree: exp.Expr) -> exp.Expr:
    """What a call is of, where that has an aggregate."""
    return tree.this if tree.this.find(exp.AggFunc) and not tree.find_ancestor(exp.AggFunc) else tree


def _where(call: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """An aggregate of the rows for which a condition holds."""
    value = exp.Literal.number(1) if isinstance(call.this, exp.Star) else call.this
    case = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
    return type(call)(this=case)
