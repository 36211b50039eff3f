"""A subquery that asks for an aggregate of rows which the block around it reads itself.

    x.v > (SELECT avg(v) FROM t y WHERE y.k = x.k)              an aggregate of the rows with the same key
    EXISTS (SELECT * FROM t y WHERE y.k = x.k AND y.s <> x.s)   the least and the greatest s of them: one is not x.s

Both become columns of the block's own rows, partitioned by the key (WinMagic, Zuzarte et al., SIGMOD 2003).  A row
whose key is NULL meets no row of the subquery, and yet stands in a partition: such keys are *guarded*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from planner.conditions.compared import compared
from planner.errors import Place, Unsupported
from planner.expr import HOLE, Scalar, column_ref, sql
from planner.expr.tokens import tokenize
from planner.logical import Limit
from planner.sql.names import Unresolved
from planner.types.schema import SqlType
from rules.analysis.containment_mapping import ContainmentMapping, Term, containment_mappings
from rules.analysis.correlation_keys import CorrelationKey, correlation_key, has_order, plainly_compared
from rules.context import Context
from rules.query.aggregates import WindowColumn, aggregate_positions, check_aggregates, without_alias
from rules.query.inner_joins import InnerJoins, inner_joins
from rules.query.moving import SelectBlock, block_of, check_deterministic, check_inner
from rules.query.tables import tables

Form = Literal["exists", "scalar"]


@dataclass(frozen=True)
class Group:
    """A relation of the block that shows the group of each row: names, and what they are in terms of the block."""

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

    Raises ``Unresolved``, ``Unsupported`` where it does, and may not be answered by a column.
    """
    read = frozenset(name for relation in outer.relations for name in tables(relation, ctx.definitions))
    form = may_ask(scalar, read, ctx)
    block = block_of(scalar.plans[0]) if form else None
    if form is None or block is None:
        return None
    inner = inner_joins(scalar.plans[0], ctx.names)  # type: ignore[arg-type]
    if inner is None or not _correlates(inner, outer, form, ctx):
        return None
    refused: Unresolved | None = None
    for mapped in containment_mappings(inner, outer, ctx):
        try:
            _check_block(block, form, ctx)
            return _Reader(scalar, form, mapped, ctx).read()
        except Unresolved as no:
            refused = refused or no
    if refused:
        raise refused
    return None


def may_ask(scalar: Scalar, read: frozenset[str], ctx: Context) -> Form | None:
    """Whether an expression has one subquery that might be a request, and how it uses it.  Never looks anything up.

    ``read``: the tables of the block.
    """
    form = _form(scalar) if len(scalar.plans) == 1 else None
    block = block_of(scalar.plans[0]) if form else None
    if block is None:
        return None
    wanted = tables(block.tree, ctx.definitions)
    if not wanted or not wanted <= read or (form == "scalar") != _asks_an_aggregate(block):
        return None
    return form


def _form(scalar: Scalar) -> Form | None:
    """How an expression uses its one subquery."""
    t = tokenize(scalar.text)
    at = next(i for i in range(len(t)) if t[i].word == f"{HOLE}0".upper())
    before = t[at - 2].word if at > 1 else ""
    if before == "EXISTS":
        return "exists"
    return None if before in ("IN", "ALL", "ANY", "SOME") or t[at - 1].word != "(" else "scalar"


def _asks_an_aggregate(block: SelectBlock) -> bool:
    return any(aggregate_positions(item.text) for item in block.project.items)


def _correlates(inner: InnerJoins, outer: InnerJoins, form: Form, ctx: Context) -> bool:
    """Whether conditions of the subquery name the block, and none keeps a scalar within a band.  Raises."""
    mapped = ContainmentMapping(inner, outer, (), (), ctx)
    across = [c.tree for c in inner.conjuncts if not c.plans and 1 in mapped.scopes(c)]
    bands = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
    return bool(across) and (form == "exists" or not any(tree.find(*bands) for tree in across))


def _check_block(block: SelectBlock, form: Form, ctx: Context) -> None:
    """Raise ``Unresolved`` unless a subquery is one plain SELECT."""
    for more in block.more:
        if form == "scalar" or not (isinstance(more, Limit) and _lets_one_through(more)):
            raise Unresolved(f"the subquery has its own {more.label}")
    project = block.project
    if project.hint or (project.quantifier and form == "scalar"):
        raise Unresolved(f"the subquery has {'a hint' if project.hint else project.quantifier.upper()}")
    if form == "scalar" and len(project.items) != 1:
        raise Unresolved("the subquery has more than one value")
    check_inner(block.tree, ctx.names)


def _lets_one_through(limit: Limit) -> bool:
    words = limit.clause.text.split()
    return len(words) == 2 and words[0].upper() == "LIMIT" and words[1].isdigit() and int(words[1]) > 0


class _Reader:
    """One subquery over one mapping; its methods raise ``Unresolved`` where it is not what a column can say."""

    def __init__(self, scalar: Scalar, form: Form, mapped: ContainmentMapping, ctx: Context):
        self.scalar, self.form, self.mapped, self.ctx = scalar, form, mapped, ctx
        self.keys: list[tuple[exp.Expression, exp.Expression]] = []
        self.compared: list[tuple[exp.Expression, str, exp.Expression]] = []

    def read(self) -> CorrelatedAggregate | None:
        own = [*self.mapped.filters()]
        for conjunct in self.mapped.inner.conjuncts:
            check_deterministic(conjunct)
            match self.mapped.scopes(conjunct):
                case scopes if 1 not in scopes:
                    own.append(self.mapped.term(conjunct))
                case _:
                    self._correlation(conjunct)
        if not self.keys:
            raise Unresolved("no equality correlates the subquery with the outer query")
        if self.form == "exists" and not self.compared and not own:
            return None  # the row itself
        keys = tuple(
            correlation_key(Scalar(sql(inner)), self.mapped.outside(Scalar(sql(outer))), self.mapped, self.ctx)
            for inner, outer in self.keys
        )
        added, test, strict = self._exists() if self.form == "exists" else self._value()
        said = replace(self.scalar, text=test, plans=())
        relations = tuple(sorted(self.mapped.to))
        exists, answer, place = self.form == "exists", (self.scalar, said), self.scalar.place
        return CorrelatedAggregate(place, answer, relations, keys, tuple(own), added, strict, exists, self.mapped)

    def _correlation(self, conjunct: Scalar) -> None:
        comparison = compared(conjunct)
        if comparison and comparison.sign != "<=>" and comparison.columns:
            scopes = [self._scope(end) for end in comparison.operands]
            inner, sign, outer = comparison if scopes[0] == 0 else comparison.turned
            if set(scopes) == {0, 1} and sign == "=":
                self.keys.append((inner, outer))
                return
            if set(scopes) == {0, 1} and self.form == "exists":
                self.compared.append((inner, sign, outer))
                return
        raise Unresolved(f"{conjunct.shown} is not an equality of two columns")

    def _scope(self, tree: exp.Expression) -> int | None:
        found = self.mapped.scopes(Scalar(sql(tree)))
        return next(iter(found)) if len(found) == 1 else None

    def _exists(self) -> tuple[tuple[WindowColumn, ...], str, bool]:
        """The columns, what stands for EXISTS, and whether it drops rows whose columns are NULL."""
        if len(self.compared) > 1:
            raise Unresolved("the subquery compares a second column by something other than =")
        t = tokenize(self.scalar.text)
        plain = t.word(0) == "EXISTS" and t.match[1] == len(t) - 1
        at = next(i for i in range(len(t)) if t[i].word == "EXISTS")
        if not self.compared:
            added: tuple[WindowColumn, ...] = (WindowColumn(self.ctx.fresh("w"), "max(1)"),)
            test = f"{added[0].name} = 1"
        else:
            inner, said, outer = self.compared[0]
            self._check_order(inner, outer)
            value = self.mapped.outside(Scalar(sql(inner))).text
            other = self.mapped.outside(Scalar(sql(outer))).text
            functions = {"<>": ("min", "max"), "<": ("min",), "<=": ("min",), ">": ("max",), ">=": ("max",)}[said]
            added = tuple(WindowColumn(self.ctx.fresh("w"), f"{f}({value})") for f in functions)
            test = " OR ".join(f"{call.name} {said} {other}" for call in added)
        if plain:
            return added, f"({test})" if len(added) > 1 else test, True
        text = self.scalar.text
        return added, f"{text[: t[at].start]}(({test}) IS TRUE){text[t[t.match[at + 1]].end :]}", False

    def _check_order(self, inner: exp.Expression, outer: exp.Expression) -> None:
        """Raise ``Unresolved`` unless two columns are compared as their order has it."""
        scopes = (self.mapped.inner.sources, self.mapped.outer.sources)
        types: list[SqlType | None] = []
        for column in (inner, outer):
            ref = column_ref(column)
            found = self.mapped.home(ref)
            types.append(self.ctx.names.resolve(ref, scopes[found.scope])[1].type)
        if not plainly_compared(types[0], types[1]) or not all(map(has_order, types)):
            raise Unresolved(f"{sql(inner)} and {sql(outer)} may not be compared in the order of min and max")

    def _value(self) -> tuple[tuple[WindowColumn, ...], str, bool]:
        block = block_of(self.scalar.plans[0])
        assert block is not None
        item = self.mapped.outside(without_alias(block.project.items[0]))
        if self.mapped.scopes(without_alias(block.project.items[0])) - {0}:
            raise Unresolved("the aggregate uses columns of the outer query")
        check_aggregates(item)
        call = WindowColumn(self.ctx.fresh("w"), item.text)
        strict = not item.tree.find(exp.Count, exp.Coalesce, exp.Null) and null_rejecting(self.scalar)
        # A subquery may be NULL as far as Spark can tell; a count beside a row may not.
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
