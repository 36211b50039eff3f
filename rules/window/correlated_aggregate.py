"""Correlated subqueries that aggregate rows which the outer query reads as well.

    x.v > (SELECT avg(v) FROM t y WHERE y.k = x.k)              an aggregate of the rows with the same key
    EXISTS (SELECT * FROM t y WHERE y.k = x.k AND y.s <> x.s)   the least and the greatest s of them: one is not x.s

Both become window columns of the outer query, partitioned by the key (WinMagic, Zuzarte et al., SIGMOD 2003).  A row
whose key is NULL matches no row of the subquery, but a window has a partition for it: such keys are *guarded*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import Place, Refused, Unsupported
from dovetail.planner.expr import HOLE, Scalar, sql
from dovetail.planner.expr.aggregate_calls import aggregate_arguments
from dovetail.planner.expr.subqueries import subqueries
from dovetail.planner.expr.substitution import without_alias
from dovetail.planner.logical import Limit
from dovetail.rules.analysis.containment_mapping import ContainmentMapping, Term, containment_mappings, read_first
from dovetail.rules.analysis.correlation_keys import CorrelationKey, correlation_key, plainly_compared
from dovetail.rules.analysis.float_groups import check_groups
from dovetail.rules.context import Context
from dovetail.rules.query.aggregates import WindowColumn, check_aggregates
from dovetail.rules.query.decorrelation import check_deterministic, check_inner
from dovetail.rules.query.inner_joins import InnerJoins, inner_joins
from dovetail.rules.query.query_block import QueryBlock, read_block
from dovetail.rules.query.tables import tables

Form = Literal["exists", "scalar"]


@dataclass(frozen=True)
class Group:
    """A relation of the block with the group of each row: names, and their expressions over the block."""

    relation: int
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class CorrelatedAggregate:
    """A subquery, in an expression or in FROM, that aggregates rows of the outer query's own relations.

    ``answer``: the expression, and what stands for it in terms of the columns ``calls``; or the relation.  ``own`` are
    the conditions that a row must meet to count.  ``strict``: a row whose key is NULL is dropped anyway.
    """

    place: Place | None
    answer: tuple[Scalar, Scalar] | Group
    relations: tuple[int, ...]
    keys: tuple[CorrelationKey, ...]
    own: tuple[Term, ...]
    calls: tuple[WindowColumn, ...]
    strict: bool
    exists: bool
    mapped: ContainmentMapping


def correlated_aggregate(scalar: Scalar, outer: InnerJoins, ctx: Context) -> CorrelatedAggregate | None:
    """The correlated aggregate in a conjunct or item; None where its one subquery reads other rows.

    Raises ``Refused``, ``Unsupported`` where it does, and may not be answered by a column.
    """
    read = frozenset(name for relation in outer.relations for name in tables(relation, ctx.definitions))
    form = correlated_form(scalar, read, ctx)
    block = read_block(scalar.plans[0]) if form else None
    if form is None or block is None:
        return None
    inner = inner_joins(block, ctx.names)
    if not _correlates(inner, outer, form, ctx):
        return None

    def read_over(mapped: ContainmentMapping) -> CorrelatedAggregate | None:
        _check_block(inner.block, form, ctx)
        return _Reader(scalar, form, mapped, ctx).read()

    return read_first(containment_mappings(inner, outer, ctx), read_over)


def correlated_form(scalar: Scalar, read: frozenset[str], ctx: Context) -> Form | None:
    """Return how an expression uses its one subquery if that might be a correlated aggregate.  Never looks anything up.

    ``read``: the tables of the block.
    """
    form = _form(scalar) if len(scalar.plans) == 1 else None
    block = read_block(scalar.plans[0]) if form else None
    if block is None:
        return None
    wanted = tables(block.tree, ctx.definitions)
    if not wanted or not wanted <= read or (form == "scalar") != _returns_aggregate(block):
        return None
    return form


def _form(scalar: Scalar) -> Form | None:
    """Return how an expression uses its one subquery, if a column can replace it."""
    kind = subqueries(scalar)[0].kind
    return kind if kind in ("exists", "scalar") else None


def _returns_aggregate(block: QueryBlock) -> bool:
    return any(aggregate_arguments(item.text) for item in block.project.items)


def _correlates(inner: InnerJoins, outer: InnerJoins, form: Form, ctx: Context) -> bool:
    """Whether the subquery is correlated with the block; a scalar one must have no band.  Raises ``Refused``."""
    mapped = ContainmentMapping(inner, outer, (), (), ctx)
    across = [c.tree for c in inner.conjuncts if not c.plans and 1 in mapped.scope.bind(c).levels]
    bands = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
    return bool(across) and (form == "exists" or not any(tree.find(*bands) for tree in across))


def _check_block(block: QueryBlock, form: Form, ctx: Context) -> None:
    """Raise ``Refused`` unless a subquery is one plain SELECT."""
    for clause in block.clauses:
        if form == "scalar" or not (isinstance(clause, Limit) and clause.keeps_a_row):
            raise Refused(f"the subquery has its own {clause.label}")
    project = block.project
    if project.hint or (project.quantifier and form == "scalar"):
        raise Refused(f"the subquery has {'a hint' if project.hint else project.quantifier.upper()}")
    if form == "scalar" and len(project.items) != 1:
        raise Refused("the subquery returns more than one column")
    check_inner(block.tree, ctx.names)


class _Reader:
    """Reads one subquery over one mapping; its methods raise ``Refused`` if a window column cannot compute it."""

    def __init__(self, scalar: Scalar, form: Form, mapped: ContainmentMapping, ctx: Context):
        self.scalar, self.form, self.mapped, self.ctx = scalar, form, mapped, ctx
        self.keys: list[tuple[exp.Expression, exp.Expression]] = []
        self.compared: list[tuple[exp.Expression, str, exp.Expression]] = []

    def read(self) -> CorrelatedAggregate | None:
        own = [*self.mapped.filters()]
        for conjunct in self.mapped.inner.conjuncts:
            check_deterministic(conjunct)
            match self.mapped.scope.bind(conjunct).levels:
                case scopes if 1 not in scopes:
                    own.append(self.mapped.term(conjunct))
                case _:
                    self._correlation(conjunct)
        if not self.keys:
            raise Refused("no equality correlates the subquery with the outer query")
        if self.form == "exists" and not self.compared and not own:
            return None  # the row itself
        keys = tuple(
            correlation_key(Scalar(sql(inner)), self.mapped.outside(Scalar(sql(outer))), self.mapped)
            for inner, outer in self.keys
        )
        added, test, strict = self._exists() if self.form == "exists" else self._value()
        answer = replace(self.scalar, text=test, plans=())
        relations = tuple(sorted(self.mapped.to))
        exists, pair, place = self.form == "exists", (self.scalar, answer), self.scalar.place
        return CorrelatedAggregate(place, pair, relations, keys, tuple(own), added, strict, exists, self.mapped)

    def _correlation(self, conjunct: Scalar) -> None:
        comparison = compared(conjunct)
        if comparison and comparison.sign != "<=>" and comparison.columns:
            scopes = [self._scope(end) for end in comparison.operands]
            inner, sign, outer = comparison if scopes[0] == 0 else comparison.turned
            if set(scopes) == {0, 1} and sign == "=":
                check_groups(self.mapped.scope.column(inner).column.type, sql(inner), self.ctx)
                self.keys.append((inner, outer))
                return
            if set(scopes) == {0, 1} and self.form == "exists":
                self.compared.append((inner, sign, outer))
                return
        raise Refused(f"{conjunct.shown} is not an equality of two columns")

    def _scope(self, tree: exp.Expression) -> int | None:
        found = self.mapped.scope.bind(tree).levels
        return next(iter(found)) if len(found) == 1 else None

    def _exists(self) -> tuple[tuple[WindowColumn, ...], str, bool]:
        """Return the columns, the replacement of EXISTS, and whether it drops rows whose columns are NULL."""
        if len(self.compared) > 1:
            raise Refused("the subquery compares a second column by something other than =")
        if not self.compared:
            added: tuple[WindowColumn, ...] = (WindowColumn(self.ctx.fresh("w"), "max(1)"),)
            test = f"{added[0].name} = 1"
        else:
            inner, sign, outer = self.compared[0]
            self._check_order(inner, outer)
            value = self.mapped.outside(Scalar(sql(inner))).text
            other = self.mapped.outside(Scalar(sql(outer))).text
            functions = {"<>": ("min", "max"), "<": ("min",), "<=": ("min",), ">": ("max",), ">=": ("max",)}[sign]
            added = tuple(WindowColumn(self.ctx.fresh("w"), f"{f}({value})") for f in functions)
            test = " OR ".join(f"{call.name} {sign} {other}" for call in added)
        text, (exists,) = self.scalar.text, subqueries(self.scalar)
        if exists.end - exists.start == len(text):
            return added, f"({test})" if len(added) > 1 else test, True
        return added, f"{text[: exists.start]}(({test}) IS TRUE){text[exists.end :]}", False

    def _check_order(self, inner: exp.Expression, outer: exp.Expression) -> None:
        """Raise ``Refused`` unless two columns are compared as their order has it."""
        types = [self.mapped.scope.column(column).column.type for column in (inner, outer)]
        if not plainly_compared(types[0], types[1]) or not all(t and t.ordered for t in types):
            raise Refused(f"{sql(inner)} and {sql(outer)} may not be compared in the order that min and max use")

    def _value(self) -> tuple[tuple[WindowColumn, ...], str, bool]:
        block = self.mapped.inner.block
        item = self.mapped.outside(without_alias(block.project.items[0]))
        if self.mapped.scope.bind(without_alias(block.project.items[0])).levels - {0}:
            raise Refused("the aggregate uses columns of the outer query")
        check_aggregates(item)
        call = WindowColumn(self.ctx.fresh("w"), item.text)
        strict = not item.tree.find(exp.Count, exp.Coalesce, exp.Null) and null_rejecting(self.scalar)
        # Spark takes a subquery for nullable, and a count next to a row for not nullable.
        never_null = isinstance(self.scalar.tree, exp.Alias) and item.tree.find(exp.Count, exp.Coalesce)
        shown = f"nullif({call.name}, NULL)" if never_null else call.name
        return (call,), self.scalar.text.replace(f"{HOLE}0", shown), strict


def null_rejecting(scalar: Scalar) -> bool:
    """Whether a conjunct is not true where its one subquery is NULL: a comparison of arithmetic over it."""
    try:
        node: object = next(c for c in scalar.tree.find_all(exp.Column) if c.name.startswith(HOLE))
    except (StopIteration, Unsupported):
        return False
    while isinstance(node, exp.Column | exp.Paren | exp.Neg | exp.Add | exp.Sub | exp.Mul | exp.Div):
        node = node.parent
    if not isinstance(node, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return False
    node = node.parent
    while isinstance(node, exp.Paren):
        node = node.parent
    return node is None or isinstance(node, exp.Select)
