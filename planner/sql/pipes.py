"""Reads pipe syntax as query blocks: ``FROM t |> WHERE a |> SELECT b`` is ``SELECT b FROM t WHERE a``.

Each operator reads the relation that those before it make.  WHERE stays in the block of the relation that it filters;
SELECT, EXTEND and AGGREGATE make a block, which the next operator reads as a subquery.  A subquery over one relation
keeps the name of that relation, so that names such as ``t.a`` stay valid, as they do in Spark.  Over several relations
no subquery keeps them, so EXTEND, WHERE and SELECT become one block where they can: a condition on a window is QUALIFY.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from dovetail.planner.errors import Unsupported
from dovetail.planner.expr import Scalar, is_star, output_name, quote
from dovetail.planner.expr.calls import volatile
from dovetail.planner.expr.ranking import is_windowed
from dovetail.planner.expr.substitution import substitute_columns, without_alias
from dovetail.planner.logical import (
    Aggregate,
    Derived,
    Filter,
    Limit,
    Logical,
    Pipeline,
    Project,
    Scan,
    SetOp,
    Sort,
    Wrapped,
)
from dovetail.planner.sql.from_clause import from_clause, join_to
from dovetail.planner.sql.reader import Reader

Read = Callable[[Reader, int, int], Logical]
ReadList = Callable[[Reader, int, int], tuple[tuple[Scalar, ...], str, Scalar | None]]
ReadTails = Callable[[Reader, Logical, int, int], Logical]

_SET_OPERATIONS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
_TAILS = ("ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "LIMIT", "OFFSET")
_JOINS = ("JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL")
_GROUPINGS = ("ROLLUP", "CUBE", "GROUPING SETS", "GROUPING", "ALL", "WITH")


@dataclass(frozen=True)
class PipeReaders:
    """The readers of the pieces of pipes: a query, a select list, ORDER BY and the like behind a query."""

    query: Read
    select_list: ReadList
    tails: ReadTails


@dataclass(frozen=True)
class _Relation:
    """What the operators read so far make: a query, or the relations of FROM with the conjuncts of WHERE over them.

    ``extended``: the items of EXTEND over several relations, and ``tested``: the conjuncts of WHERE behind it.
    """

    rows: Logical
    where: tuple[Scalar, ...] = ()
    is_query: bool = False
    alias: str | None = None  # the name of the one relation that it reads
    extended: tuple[Scalar, ...] = ()
    tested: tuple[Scalar, ...] = ()

    def settled(self, name: Callable[[], str]) -> _Relation:
        """It with EXTEND as a query of its own."""
        if not self.extended:
            return self
        query = _Relation(Project(self.filtered(), (Scalar("*"), *self.extended)), is_query=True)
        return query.tested_by(self.tested, name) if self.tested else query

    def tested_by(self, condition: tuple[Scalar, ...], name: Callable[[], str]) -> _Relation:
        """It with a WHERE behind it."""
        if self.extended:
            return replace(self, tested=(*self.tested, *condition))
        if self.is_query:
            rows = self.in_from(name)
            return _Relation(rows, condition, alias=_alias(rows))
        return replace(self, where=(*self.where, *condition))

    def selected(self, items: tuple[Scalar, ...]) -> Project | None:
        """A SELECT over EXTEND as one block; None where it has to be two."""
        windowed = any(map(is_windowed, self.extended))
        try:
            definitions = {item.tree.alias.lower(): without_alias(item).text for item in self.extended}
            if any(volatile(item.tree) for item in self.extended):
                return None
            if "" in definitions or len(definitions) < len(self.extended):
                return None
            shown = tuple(_defined_item(item, definitions) for item in items)
            for item in items if windowed else ():
                if isinstance(item.tree, exp.Column) and not item.tree.table:
                    definitions.pop(item.tree.name.lower(), None)  # QUALIFY knows the names of items
            tested = tuple(_defined(conjunct, definitions) for conjunct in self.tested)
        except Unsupported:
            return None
        if not windowed:
            return Project(replace(self, where=(*self.where, *tested)).filtered(), shown)
        if tested and any(map(is_windowed, items)):
            return None  # these windows are over the rows that are left
        return Project(Filter(self.filtered(), tested, "QUALIFY") if tested else self.filtered(), shown)

    def in_from(self, name: Callable[[], str]) -> Logical:
        """It as a relation in FROM; without a name of its own, it gets a new one."""
        if not self.is_query and not self.where:
            return self.rows
        alias = self.alias or name()
        return Derived(self.as_query(), alias, (), quote(alias))

    def block(self, items: tuple[Scalar, ...], name: Callable[[], str]) -> Project:
        """A SELECT over it."""
        return Project(self.filtered() if not self.is_query else self.in_from(name), items)

    def filtered(self) -> Logical:
        return Filter(self.rows, self.where, "WHERE") if self.where else self.rows

    def as_query(self) -> Logical:
        return self.rows if self.is_query else Project(self.filtered(), (Scalar("*"),))


def _defined(scalar: Scalar, definitions: dict[str, str]) -> Scalar:
    """An expression with what EXTEND defines in the place of its names.  Raises ``Unsupported``."""

    def defined(tree: exp.Expression) -> str | None:
        return definitions.get(tree.name.lower()) if isinstance(tree, exp.Column) and not tree.table else None

    return substitute_columns(scalar, defined)


def _defined_item(item: Scalar, definitions: dict[str, str]) -> Scalar:
    """The same for an item, which keeps its name.  Raises ``Unsupported``."""
    if is_star(item.tree):
        raise Unsupported("* shows what EXTEND defines")
    new, tree = _defined(item, definitions), item.tree
    if new is item or isinstance(tree, exp.Alias):
        return new
    return Scalar(f"{new.text} AS {quote(output_name(item))}", (), item.place)


def pipeline(r: Reader, lo: int, hi: int, at: list[int], read: PipeReaders) -> Pipeline:
    """Read a query with pipes at these positions.  Raises ``Unsupported`` for an operator that is not supported."""
    t = r.tokens
    relation = _source(r, lo, at[0], read)
    for start, end in zip((i + 1 for i in at), [*at[1:], hi], strict=True):
        if start >= end:
            raise r.fail("a pipe has no operator", start)
        relation = _operator(r, relation, start, end, read)
    query = relation.settled(lambda: _new_name(r)).as_query()
    return Pipeline(t.slice(lo, hi), query, t[lo].start)


def _source(r: Reader, lo: int, hi: int, read: PipeReaders) -> _Relation:
    t = r.tokens
    if t[lo].word in ("FROM", "TABLE") and not any(t[i].word == "SELECT" for i in t.top(lo, hi)):
        rows = from_clause(r, lo + 1, hi)
        return _Relation(rows, alias=_alias(rows))
    return _Relation(read.query(r, lo, hi), is_query=True)


def _alias(rows: Logical) -> str | None:
    return rows.alias if isinstance(rows, Scan | Derived) else None


def _operator(r: Reader, before: _Relation, lo: int, hi: int, read: PipeReaders) -> _Relation:
    """Read one operator behind a pipe."""
    t = r.tokens
    word = " ".join(t[lo].word.split())

    def name() -> str:
        return _new_name(r)

    if word == "WHERE":
        return before.tested_by(r.conjuncts(lo + 1, hi), name)
    if word == "SELECT":
        items, quantifier, hint = read.select_list(r, lo + 1, hi)
        block = before.selected(items) if before.extended else None
        block = block or before.settled(name).block(items, name)
        return _Relation(replace(block, quantifier=quantifier, hint=hint), is_query=True, alias=before.alias)
    before = before.settled(name)
    if word == "AS" and lo + 2 == hi and t[lo + 1].is_name:
        return _renamed(before, t[lo + 1].text)
    if word == "EXTEND":
        items = tuple(r.scalar(a, b) for a, b in t.split(lo + 1, hi))
        if before.alias is None and not before.is_query:
            return replace(before, extended=items)
        return _Relation(before.block((Scalar("*"), *items), name), is_query=True, alias=before.alias)
    if word == "AGGREGATE":
        return _Relation(_aggregate(r, before, lo, hi, name), is_query=True)
    if word in _JOINS:
        return _Relation(join_to(r, before.in_from(name), lo, hi))
    if word in _TAILS:
        query = before.as_query()
        if isinstance(query, Limit) or (isinstance(query, Sort) and word not in ("LIMIT", "OFFSET")):
            query = before.block((Scalar("*"),), name)
        return _Relation(read.tails(r, query, lo, hi), is_query=True, alias=before.alias)
    if word in _SET_OPERATIONS:
        return _Relation(_set_operation(r, before.as_query(), lo, hi, read), is_query=True)
    raise r.fail(
        f"the pipe operator {word or t[lo].text} is not supported; write what it does with SELECT, or without pipes",
        lo,
    )


def _renamed(before: _Relation, alias: str) -> _Relation:
    """``|> AS alias``."""
    rows = before.rows
    if isinstance(rows, Scan) and not before.where and rows.plain and not rows.renames and not rows.as_of:
        return _Relation(replace(rows, alias=alias, suffix=quote(alias)), alias=alias)
    return _Relation(Derived(before.as_query(), alias, (), quote(alias)), alias=alias)


def _aggregate(r: Reader, before: _Relation, lo: int, hi: int, name: Callable[[], str]) -> Project:
    """``|> AGGREGATE aggregates GROUP BY keys``: returns the keys, then the aggregates."""
    t = r.tokens
    group = next((i for i in t.top(lo, hi) if " ".join(t[i].word.split()) == "GROUP BY"), hi)
    aggregates = tuple(r.scalar(a, b) for a, b in t.split(lo + 1, group)) if group > lo + 1 else ()
    if group == hi:
        return before.block(aggregates, name)
    keys, shown = [], []
    for a, b in t.split(group + 1, hi):
        if any(t[i].word in _GROUPINGS for i in t.top(a, b)) or (b - a == 1 and t[a].word[:1].isdigit()):
            raise r.fail("AGGREGATE … GROUP BY takes expressions only here; name the columns", a)
        end = b - 2 if b - a > 2 and t[b - 2].word == "AS" else b
        if end == b and b - a > 1 and t[b - 1].is_name and _ends_expression(r, b - 2):
            raise r.fail("a name of a key in GROUP BY needs AS before it here", b - 1)
        keys.append(r.scalar(a, end))
        shown.append(r.scalar(a, b))
    block = before.block((*shown, *aggregates), name)
    return replace(block, child=Aggregate(block.child, tuple(keys)))


def _ends_expression(r: Reader, i: int) -> bool:
    """Whether an expression may end with a token, so that a name behind it is an alias."""
    token = r.tokens[i]
    return token.is_name or token.word in ("", ")", "]", "END") or token.word[:1].isdigit()


def _set_operation(r: Reader, left: Logical, lo: int, hi: int, read: PipeReaders) -> SetOp:
    t = r.tokens
    end = lo + 1
    while t.word(end, hi) in ("ALL", "DISTINCT", "BY", "NAME"):
        end += 1
    if end >= hi:
        raise r.fail(f"{t[lo].word} has no query behind it", lo)
    return SetOp(left if isinstance(left, Project) else Wrapped(left), read.query(r, end, hi), t.slice(lo, end))


def _new_name(r: Reader) -> str:
    """A name for a relation that has none, which is no word of the statement."""
    taken = {t.text.lower() for t in r.tokens.items} | r.pipe_names
    number = next(n for n in range(1, len(taken) + 2) if f"pipe{n}" not in taken)
    r.pipe_names.add(f"pipe{number}")
    return f"pipe{number}"
