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

from planner.errors import NotCarried, Place
from planner.expr import HOLE, Scalar, column_ref, sql
from planner.logical import Limit
from planner.names import Source, Unresolved
from planner.schema import SqlType
from planner.tokens import tokenize
from rules.inner_joins import InnerJoins, inner_joins
from rules.mapped import Mapped, Term, is_column, laid_over, tables
from rules.moving import Block, block_of, check_inner, check_steady
from rules.rule import Context

_CALLS = ("AVG", "SUM", "MIN", "MAX", "COUNT")
_AGGREGATES = (exp.Avg, exp.Sum, exp.Min, exp.Max, exp.Count)
_ARITHMETIC = (exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div)
_AROUND = (*_ARITHMETIC, exp.Literal, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Coalesce, exp.Null)
_COMPARED = {exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_TURNED = {"<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
Form = Literal["exists", "scalar"]
_ORDERED = ("decimal", "float", "double", "string", "date", "timestamp", "timestamp_ntz", "boolean")


@dataclass(frozen=True)
class Key:
    """What a group is made by: ``text`` over the block's relations, ``value`` in the one spelling.

    ``guarded``: it may be NULL in a row of the block, which then meets no row of the subquery.
    """

    text: str
    value: str
    guarded: bool


@dataclass(frozen=True)
class Call:
    """An expression of aggregates over the block's columns, and its name among the columns that are added.

    ``said`` writes it: given conditions that a row must meet to count, and what is to follow each aggregate.
    """

    name: str
    text: str

    def said(self, conditions: tuple[str, ...], over: str) -> str:
        """The expression; raises ``NotCarried`` when its aggregates cannot be found in the text."""
        t = tokenize(self.text)
        text, at = "", 0
        for i, close in calls(self.text):
            text += self.text[at : t[i + 1].end] + _argument(t.slice(i + 2, close), conditions) + ")" + over
            at = t[close].end
        return text + self.text[at:]


@dataclass(frozen=True)
class Group:
    """A relation of the block that shows the group of each row: names, and what they are in terms of the block."""

    relation: int
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Request:
    """What an expression or a relation of the block asks of the block's own rows.

    ``answer``: the expression, and what stands for it in terms of the columns ``calls``; or the relation.  ``own`` are
    the conditions that a row must meet to count.  ``strict``: a row whose key is NULL is dropped anyway.
    """

    place: Place | None
    answer: tuple[Scalar, Scalar] | Group
    relations: tuple[int, ...]
    keys: tuple[Key, ...]
    own: tuple[Term, ...]
    calls: tuple[Call, ...]
    strict: bool
    exists: bool
    mapped: Mapped


def request_of(scalar: Scalar, outer: InnerJoins, ctx: Context) -> Request | None:
    """What the one subquery of a conjunct or item asks; None where it asks for other things than own rows.

    Raises ``Unresolved``, ``NotCarried`` where it does, and may not be answered by a column.
    """
    read = frozenset(name for relation in outer.relations for name in tables(relation))
    form = may_ask(scalar, read)
    block = block_of(scalar.plans[0]) if form else None
    if form is None or block is None:
        return None
    inner = inner_joins(scalar.plans[0], ctx.names)  # type: ignore[arg-type]
    if inner is None or not _correlates(inner, outer, ctx):
        return None
    refused: Unresolved | None = None
    for mapped in laid_over(inner, outer, ctx):
        try:
            _check_block(block, form, ctx)
            return _Reader(scalar, form, mapped, ctx).read()
        except Unresolved as no:
            refused = refused or no
    if refused:
        raise refused
    return None


def may_ask(scalar: Scalar, read: frozenset[str]) -> Form | None:
    """Whether an expression has one subquery that might be a request, and how it uses it.  Never looks anything up.

    ``read``: the tables of the block.
    """
    form = _form(scalar) if len(scalar.plans) == 1 else None
    block = block_of(scalar.plans[0]) if form else None
    if block is None:
        return None
    wanted = tables(block.tree)
    if not wanted or not wanted <= read or (form == "scalar" and not _asks_an_aggregate(block)):
        return None
    return form


def calls(text: str) -> list[tuple[int, int]]:
    """Where the aggregates of an expression stand: the token that names each, and the one of its closing bracket."""
    t = tokenize(text)
    return [
        (i, t.match[i + 1])
        for i in range(len(t) - 1)
        if t[i].word in _CALLS and t[i + 1].word == "(" and (i == 0 or t[i - 1].word != ".")
    ]


def _argument(text: str, conditions: tuple[str, ...]) -> str:
    if not conditions:
        return text
    return f"CASE WHEN {' AND '.join(conditions)} THEN {'1' if text.strip() == '*' else text} END"


def _form(scalar: Scalar) -> Form | None:
    """How an expression uses its one subquery."""
    t = tokenize(scalar.text)
    at = next(i for i in range(len(t)) if t[i].word == f"{HOLE}0".upper())
    before = t[at - 2].word if at > 1 else ""
    if before == "EXISTS":
        return "exists"
    return None if before in ("IN", "ALL", "ANY", "SOME") or t[at - 1].word != "(" else "scalar"


def _asks_an_aggregate(block: Block) -> bool:
    return any(calls(item.text) for item in block.project.items)


def _correlates(inner: InnerJoins, outer: InnerJoins, ctx: Context) -> bool:
    """Whether some condition of the subquery names the block.  Raises ``Unresolved``."""
    mapped = Mapped(inner, outer, (), (), ctx)
    return any(1 in mapped.scopes(c) for c in inner.conjuncts if not c.plans)


def _check_block(block: Block, form: Form, ctx: Context) -> None:
    """Raise ``Unresolved`` unless a subquery is one plain SELECT."""
    for more in block.more:
        if form == "scalar" or not (isinstance(more, Limit) and _lets_one_through(more)):
            raise Unresolved(f"the subquery has its own {more.label}")
    project = block.project
    if project.hint or (project.quantifier and form == "scalar"):
        raise Unresolved(f"the subquery has {'a hint' if project.hint else project.quantifier.upper()}")
    if form == "scalar" and len(project.items) != 1:
        raise Unresolved("the subquery has more than one value")
    if form == "exists" and _asks_an_aggregate(block):
        raise Unresolved("an aggregate without groups always exists")
    check_inner(block.tree, ctx.names)


def _lets_one_through(limit: Limit) -> bool:
    words = limit.clause.text.split()
    return len(words) == 2 and words[0].upper() == "LIMIT" and words[1].isdigit() and int(words[1]) > 0


class _Reader:
    """One subquery over one mapping; its methods raise ``Unresolved`` where it is not what a column can say."""

    def __init__(self, scalar: Scalar, form: Form, mapped: Mapped, ctx: Context):
        self.scalar, self.form, self.mapped, self.ctx = scalar, form, mapped, ctx
        self.keys: list[tuple[exp.Column, exp.Column]] = []
        self.compared: list[tuple[exp.Column, str, exp.Column]] = []

    def read(self) -> Request:
        own = [*self.mapped.filters()]
        for conjunct in self.mapped.inner.conjuncts:
            check_steady(conjunct)
            match self.mapped.scopes(conjunct):
                case scopes if 1 not in scopes:
                    own.append(self.mapped.term(conjunct))
                case _:
                    self._correlation(conjunct)
        if not self.keys:
            raise Unresolved("no equality ties the subquery to the block")
        keys = tuple(
            tied_key(Scalar(sql(inner)), self.mapped.outside(Scalar(sql(outer))), self.mapped, self.ctx)
            for inner, outer in self.keys
        )
        added, test, strict = self._exists() if self.form == "exists" else self._value()
        said = replace(self.scalar, text=test, plans=())
        relations = tuple(sorted(self.mapped.to))
        exists, answer, place = self.form == "exists", (self.scalar, said), self.scalar.place
        return Request(place, answer, relations, keys, tuple(own), added, strict, exists, self.mapped)

    def _correlation(self, conjunct: Scalar) -> None:
        tree = conjunct.tree
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if isinstance(tree, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
            ends = {self._scope(end): end for end in (tree.this, tree.expression)}
            if set(ends) == {0, 1} and all(is_column(end) for end in ends.values()):
                inner, outer = ends[0], ends[1]
                if isinstance(tree, exp.EQ):
                    self.keys.append((inner, outer))
                    return
                said = _COMPARED[type(tree)]
                if self.form == "exists":
                    self.compared.append((inner, said if inner is tree.this else _TURNED[said], outer))
                    return
        raise Unresolved(f"{conjunct.shown} is more than an equality of two columns")

    def _scope(self, tree: exp.Expression) -> int | None:
        found = self.mapped.scopes(Scalar(sql(tree)))
        return next(iter(found)) if len(found) == 1 else None

    def _exists(self) -> tuple[tuple[Call, ...], str, bool]:
        """The columns, what stands for EXISTS, and whether it drops rows whose columns are NULL."""
        if len(self.compared) > 1:
            raise Unresolved("the subquery is correlated on a second column without an equality")
        t = tokenize(self.scalar.text)
        plain = t.word(0) == "EXISTS" and t.match[1] == len(t) - 1
        at = next(i for i in range(len(t)) if t[i].word == "EXISTS")
        if not self.compared:
            added: tuple[Call, ...] = (Call(self.ctx.fresh("w"), "max(1)"),)
            test = f"{added[0].name} = 1"
        else:
            inner, said, outer = self.compared[0]
            self._check_order(inner, outer)
            value = self.mapped.outside(Scalar(sql(inner))).text
            other = self.mapped.outside(Scalar(sql(outer))).text
            functions = {"<>": ("min", "max"), "<": ("min",), "<=": ("min",), ">": ("max",), ">=": ("max",)}[said]
            added = tuple(Call(self.ctx.fresh("w"), f"{f}({value})") for f in functions)
            test = " OR ".join(f"{call.name} {said} {other}" for call in added)
        if plain:
            return added, f"({test})" if len(added) > 1 else test, True
        text = self.scalar.text
        return added, f"{text[: t[at].start]}(({test}) IS TRUE){text[t[t.match[at + 1]].end :]}", False

    def _check_order(self, inner: exp.Column, outer: exp.Column) -> None:
        """Raise ``Unresolved`` unless two columns are compared as their order has it."""
        scopes = (self.mapped.inner.sources, self.mapped.outer.sources)
        types: list[SqlType | None] = []
        for column in (inner, outer):
            ref = column_ref(column)
            found = self.mapped.home(ref)
            types.append(self.ctx.names.resolve(ref, scopes[found.scope])[1].type)
        if not plainly_compared(types[0], types[1]) or not all(t and (t.integral or t.name in _ORDERED) for t in types):
            raise Unresolved(f"{sql(inner)} and {sql(outer)} are not known to be compared in their own order")

    def _value(self) -> tuple[tuple[Call, ...], str, bool]:
        block = block_of(self.scalar.plans[0])
        assert block is not None
        item = self.mapped.outside(without_alias(block.project.items[0]))
        if self.mapped.scopes(without_alias(block.project.items[0])) - {0}:
            raise Unresolved("the aggregate takes columns of the block")
        check_aggregates(item)
        call = Call(self.ctx.fresh("w"), item.text)
        strict = not item.tree.find(exp.Count, exp.Coalesce, exp.Null) and null_rejecting(self.scalar)
        return (call,), self.scalar.text.replace(f"{HOLE}0", call.name), strict


def tied_key(own: Scalar, theirs: Scalar, mapped: Mapped, ctx: Context) -> Key:
    """The key of rows whose column ``own`` of the query equals ``theirs`` of the block.

    Raises ``Unresolved`` unless the block's own row has that key, too.
    """
    value, other, here = mapped.inner_value(own), mapped.outer_value(theirs), mapped.outside(own).text
    pairs = [equal_columns(conjunct, mapped.outer.sources, ctx) for conjunct in mapped.outer.conjuncts]
    tied = [(mapped.outer_value(p[0]), mapped.outer_value(p[1])) for p in pairs if p]
    if value != other and not _linked(value, other, tied):
        raise Unresolved(f"{theirs.text} is not {here} in every row of the block")
    return Key(here, value, not any(value in pair for pair in tied))


def check_aggregates(item: Scalar) -> None:
    """Raise ``Unresolved`` unless an expression is arithmetic over plain aggregates, each of which a window can say."""
    check_steady(item)
    found = _plain_aggregates(item.tree)
    if found == 0 or found != len(calls(item.text)):
        raise Unresolved(f"{item.shown} is more than arithmetic over min, max, sum, avg and count")


def _plain_aggregates(tree: exp.Expression) -> int:
    if isinstance(tree, _AGGREGATES):
        if tree.expressions or isinstance(tree.this, exp.Distinct) or tree.find(exp.Window, exp.Filter):
            raise Unresolved(f"{sql(tree)} is not an aggregate that a window takes")
        if tree.this.find(exp.AggFunc):
            raise Unresolved(f"{sql(tree)} holds an aggregate")
        return 1
    if not isinstance(tree, _AROUND):
        raise Unresolved(f"{sql(tree)} stands around an aggregate")
    return sum(map(_plain_aggregates, tree.iter_expressions()))


def null_rejecting(scalar: Scalar) -> bool:
    """Whether a conjunct is not true where its one subquery is NULL: a comparison of arithmetic over it."""
    try:
        node: object = next(c for c in scalar.tree.find_all(exp.Column) if c.name.startswith(HOLE))
    except (StopIteration, NotCarried):
        return False
    while isinstance(node, exp.Column | exp.Paren | exp.Neg | exp.Add | exp.Sub | exp.Mul | exp.Div):
        node = node.parent
    if not isinstance(node, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return False
    node = node.parent
    while isinstance(node, exp.Paren):
        node = node.parent
    return node is None or isinstance(node, exp.Select)


def without_alias(item: Scalar) -> Scalar:
    """An item of a select list without the name it gets."""
    if not isinstance(item.tree, exp.Alias):
        return item
    t = tokenize(item.text)
    return replace(item, text=t.slice(0, len(t) - (2 if t.word(len(t) - 2) == "AS" else 1)))


def equal_columns(conjunct: Scalar, sources: tuple[Source, ...], ctx: Context) -> tuple[Scalar, Scalar] | None:
    """The two columns that a conjunct keeps equal, where they are compared as they are; else None."""
    try:
        tree = None if conjunct.plans else conjunct.tree
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if not isinstance(tree, exp.EQ) or not all(is_column(end) for end in (tree.this, tree.expression)):
            return None
        ends = [Scalar(sql(end)) for end in (tree.this, tree.expression)]
        types = [ctx.names.resolve(column_ref(end.tree), sources)[1].type for end in ends]
    except (NotCarried, Unresolved):
        return None
    return (ends[0], ends[1]) if plainly_compared(types[0], types[1]) else None


def plainly_compared(left: SqlType | None, right: SqlType | None) -> bool:
    """Whether two columns are compared without a cast that could make other values equal."""
    if left is None or right is None:
        return False
    return left == right or (left.integral and right.integral)


def _linked(one: str, other: str, pairs: list[tuple[str, str]]) -> bool:
    """Whether a chain of equalities leads from one to the other."""
    known, grew = {one}, True
    while grew and other not in known:
        more = {end for pair in pairs if known & set(pair) for end in pair} - known
        known |= more
        grew = bool(more)
    return other in known
