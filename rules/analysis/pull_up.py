"""Takes computed columns out of a subquery in FROM, so that the query around it can compute them above its joins.

    (SELECT lo, hi, 100 / v AS share FROM i) z      (SELECT lo, hi, v AS c1 FROM i) z,  z.share is 100 / c1

Where an outer join may show NULLs instead of a row of the subquery, one more column tells: ``if(c2, 100 / c1, NULL)``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.errors import Refused, Unsupported
from planner.expr import Scalar, column_ref, columns_in, has_star, is_star, quote, sql
from planner.expr.calls import volatile
from planner.expr.scalar import parse
from planner.expr.substitution import replace_columns
from planner.expr.tokens import mentioned
from planner.logical import (
    BandJoin,
    Cte,
    Filter,
    Join,
    LateralView,
    Limit,
    Logical,
    Nested,
    Relation,
    Scan,
    SetOp,
    With,
    expressions,
    nodes_of_from,
)
from planner.logical.nearest_join import NearestJoin
from planner.logical.pulled_up_columns import PulledUpColumns
from planner.sql.names import Source
from planner.tree import Node
from planner.types.schema import Column, SqlType
from planner.types.try_expressions import UnsafeSpeculation
from rules.analysis.speculation import EVERY, OF_MANY, name_of, raising_columns
from rules.context import Context
from rules.query.char_columns import check_value
from rules.query.correlation import leans_on_left, words_of
from rules.query.definitions import definition_of
from rules.query.query_block import QueryBlock, in_place, read_block, where
from rules.query.subquery_columns import over_subquery
from rules.query.view_as_subquery import read_view, view_as_subquery

_GENERATORS = (exp.Explode, exp.Posexplode, exp.Inline)
_NAMING = ("STRUCT", "ARRAYS_ZIP")  # these name fields after columns
_LONGEST = 500  # characters of an expression that takes the place of a column in another one
_MUCH_SMALLER = 4  # so many times, so that Spark's estimates come to the same order of sizes


@dataclass(frozen=True)
class Leaf:
    """A relation of FROM that can be named above it.

    ``optional``: an outer join may show NULLs instead of a row.  ``sides``: the side that it is in, of a join that a
    rule has recognized, and the other side.  ``filtered``: that join, or one above it, may leave out rows.
    ``carried``: the rewriting of that join carries all columns that ``*`` shows of any relation.  ``top``: the
    outermost such join that it is in.
    """

    relation: Logical
    optional: bool = False
    filtered: bool = False
    sides: tuple[Logical, Logical] | None = None
    carried: bool = False
    top: Logical | None = None

    @property
    def in_recognized(self) -> bool:
        """Whether a rule has recognized a join that it is in."""
        return self.sides is not None


def visible_leaves(tree: Logical) -> Iterator[Leaf]:
    """Yield the relations of a FROM tree, in any kind of join, without those that only a semi or anti join reads."""
    match tree:
        case Join() | BandJoin() | NearestJoin():
            hidden = isinstance(tree, NearestJoin) and any(shown.values for shown in tree.nearest.right)
            both = ((tree.left, tree.right, ("right", "full")), (tree.right, tree.left, ("left", "full")))
            for side, other, kinds in both[:1] if hidden or tree.kind in ("semi", "anti") else both:
                for leaf in visible_leaves(side):
                    again = isinstance(other, NearestJoin) and other.certain  # read again for its ties
                    recognized = again or not isinstance(tree, Join)
                    sides = leaf.sides or ((side, other) if recognized else None)
                    inner = isinstance(tree, NearestJoin) or tree.kind not in ("left", "right", "full")
                    yield Leaf(
                        leaf.relation,
                        leaf.optional or tree.kind in kinds,
                        leaf.filtered or (sides is not None and inner),
                        sides,
                        leaf.carried or isinstance(tree, NearestJoin),
                        tree if recognized else leaf.top,
                    )
        case Nested(alias=None) | LateralView() | PulledUpColumns():
            yield from visible_leaves(tree.child)
        case _:
            yield Leaf(tree)


def with_relation(tree: Logical, old: Logical, new: Logical) -> Logical:
    """A FROM tree with one relation in the place of another."""
    if tree is old:
        return new
    if isinstance(tree, Relation) and not isinstance(tree, Nested):
        return tree
    match tree:
        case Join() | BandJoin() | NearestJoin():
            left, right = (with_relation(side, old, new) for side in (tree.left, tree.right))
            return replace(tree, left=left, right=right)
        case Nested() | LateralView() | Filter() | PulledUpColumns():
            return replace(tree, child=with_relation(tree.child, old, new))
    return tree


@dataclass(frozen=True)
class TakenOut:
    """A relation without some of its columns; ``values``: the SQL of each, by its folded name, over ``added`` columns.

    No other relation of the statement has a column of the name of an added one.  ``early``: whether a later join of the
    same FROM reads one of them.
    """

    relation: Logical
    values: dict[str, str]
    added: tuple[Column, ...] = ()
    early: bool = False


def take_out(leaf: Leaf, names: Collection[str], ctx: Context, needed: Collection[str] = ()) -> TakenOut:
    """Take computed columns, by their folded names, out of a subquery, a name of WITH, or a view.

    ``needed`` are columns that have to stay.  So do those that Spark computes for every row in any case: below
    DISTINCT, LIMIT and set operations other than UNION ALL, and the keys of GROUP BY.  Raises ``Refused`` where a
    column cannot be computed outside.
    """
    relation = _view_inlined(leaf.relation, ctx)
    query = definition_of(relation, ctx)
    block = None if query is None else read_block(query)
    if isinstance(query, SetOp) and "ALL" not in query.keyword.upper():
        return TakenOut(relation, {})
    if query is None or block is None:
        raise Unsupported(f"{_name(relation)} is not a subquery of one SELECT")
    if block.project.quantifier.upper() == "DISTINCT" or any(isinstance(clause, Limit) for clause in block.above):
        return TakenOut(relation, {})
    if any(not isinstance(clause, With) for clause in block.above):
        raise Unsupported(f"{_name(relation)} is sorted")
    renames = relation.renames if isinstance(relation, Relation) else ()
    if renames or (isinstance(relation, Scan) and ctx.definitions[relation.cte].renames):
        raise Unsupported(f"the columns of {_name(relation)} are renamed")
    if isinstance(relation, Scan) and (reason := ctx.nonrepeatable_reason(relation)):
        raise Unsupported(reason)
    found = _Taking(block, names, needed, ctx).taken_out(optional=leaf.optional)
    inside = in_place(query, block.project, found.relation)
    return replace(found, relation=over_subquery(relation, inside, ctx))


def _view_inlined(relation: Logical, ctx: Context) -> Logical:
    """A view as a subquery; any other relation as it is."""
    view = ctx.catalog.view(relation.name) if isinstance(relation, Scan) and not relation.cte else None
    if view is None or not isinstance(relation, Scan) or not relation.plain:
        return relation
    query = read_view(view, ctx)
    if any(isinstance(node, Cte) for node in query.walk()):
        raise Unsupported(f"the view {relation.text} has a WITH")
    return view_as_subquery(relation, view, query, {}, ctx)


def _name(relation: Logical) -> str:
    return (isinstance(relation, Relation) and relation.alias) or "a relation"


class _Taking:
    """One SELECT, out of which columns are taken: items of its own, and those that ``*`` shows of a subquery in it.

    ``below``: the SQL of columns that are taken out of relations of its FROM, by their number and folded name.
    ``added``: columns that it has instead, by their SQL inside; ``passed`` are those of its relations.
    """

    def __init__(self, block: QueryBlock, names: Collection[str], needed: Collection[str], ctx: Context) -> None:
        fold, items = ctx.names.fold, block.project.items
        self.block, self.ctx, self.scope = block, ctx, ctx.scope(block.tree)
        self.stars = [item for item in items if is_star(item.tree)]
        named = [(fold(name), item) for item in items if not is_star(item.tree) and (name := name_of(item))]
        self.named = dict(named)
        if len(self.named) < len(named):
            raise Unsupported("two columns of a subquery have the same name")
        earlier: set[str] = set()
        for name, item in named:
            if not self._items_read(item) <= earlier:
                raise Unsupported(f"{item.shown} reads a later item")
            earlier.add(name)
        stay = set(needed).union(*map(self._items_read, (*block.condition, *block.in_clauses)))
        while more := {name for item in stay & self.named.keys() for name in self._items_read(self.named[item])} - stay:
            stay |= more
        self.taken = {name: item for name, item in named if name in names and name not in stay}
        while more := {n for n, item in named if n not in self.taken and self._items_read(item) & self.taken.keys()}:
            self.taken |= {name: self.named[name] for name in more}
        self.others = [item for item in items if item not in self.taken.values()]
        self.starred = set(names) - self.taken.keys() if self.stars else set()
        self.keys = self._keys_of_groups()
        self.below: dict[tuple[int, str], str] = {}
        self.added: dict[str, Column] = {}
        self.passed: list[Column] = []

    def _items_read(self, scalar: Scalar) -> set[str]:
        """The items of the select list that an expression names, as later items and HAVING may."""
        if scalar.plans or ("(" in scalar.text and scalar.known is None):
            return set()
        return {name for column in columns_in(scalar.tree) if (name := self._item_named(column))}

    def _item_named(self, column: exp.Expr) -> str | None:
        """The folded name of the item that a column means, where FROM has no such column."""
        name = self.ctx.names.fold(column.name)
        return name if name in self.named and self.scope.find(column) is None else None

    def taken_out(self, *, optional: bool) -> TakenOut:
        """The SELECT instead of a relation, and the columns that are taken out of it."""
        tree = self._take_below()
        values = {name: sql(self._outside(item.tree.unalias())) for name, item in self.taken.items()}
        values |= {name: text for (_, name), text in self.below.items() if name in self.starred}
        if optional and values:
            there = self._add("true", None)
            values = {name: f"if({there}, {text}, NULL)" for name, text in values.items()}
        added = [Scalar(f"{text} AS {column.name}") for text, column in self.added.items()]
        passed = [] if self.stars else [Scalar(column.name) for column in self.passed]
        project = self.block.over(where(tree, self.block.condition), items=(*self.others, *added, *passed))
        return TakenOut(project, values, (*self.added.values(), *self.passed))

    def _take_below(self) -> Logical:
        """FROM, without the columns that could raise an error and that only taken columns need."""
        tree = self.block.tree
        for leaf in visible_leaves(tree):
            if names := self._raising_below(leaf):
                found = take_out(leaf, names, self.ctx)
                tree = with_relation(tree, leaf.relation, found.relation)
                self.passed += found.added
                (source,) = self.ctx.names.sources(leaf.relation)
                number = next((n for n, one in enumerate(self.scope.sources) if one is source), -1)
                self.below |= {(number, name): text for name, text in found.values.items()}
        for name, item in [*self.taken.items()]:
            if self._is_computed_below(name, item.tree.unalias()):
                self.others.append(self.taken.pop(name))
        return tree

    def _keys_of_groups(self) -> frozenset[str]:
        """The expressions of GROUP BY in canonical form, and the items that it names."""
        found = set()
        for key in self.block.aggregate.keys if self.block.aggregate else ():
            known = all(self.scope.find(column) for column in columns_in(key.tree))
            found.add(self.scope.bind(key).canonical if known else self.ctx.names.fold(key.tree.name))
        return frozenset(found)

    def _is_computed_below(self, name: str, tree: exp.Expr) -> bool:
        """Whether Spark computes an item for every row: a key of GROUP BY, or a column of a relation that does so."""
        if isinstance(tree, exp.Column) and self._item_named(tree):
            return False
        aggregate = self.block.aggregate
        if aggregate and not tree.find(*OF_MANY):
            return bool(aggregate.sets) or name in self.keys or self.scope.bind(tree).canonical in self.keys
        return isinstance(tree, exp.Column) and not self._text_below(tree)

    def _raising_below(self, leaf: Leaf) -> set[str]:
        """The columns of a relation that could raise an error, and that nothing but taken columns needs."""
        fold, names = self.ctx.names.fold, self.ctx.names
        wanted = {fold(word) for item in self.taken.values() for word in mentioned(item.text)} | self.starred
        found = raising_columns(leaf.relation, self.ctx, of_aggregates=True).keys() & wanted
        if not found:
            return set()
        if any(len(names.starred(star.tree, self.scope.sources)) < len(self.scope.sources) for star in self.stars):
            raise Unsupported("a subquery shows all columns of only one of its relations")
        aggregates = (sql(node) for item in self.taken.values() for node in item.tree.find_all(*OF_MANY))
        found -= {fold(word) for text in aggregates for word in mentioned(text)}
        return found - words_of(replace(self.block.project, items=tuple(self.others)), names, but=leaf.relation)

    def _outside(self, tree: exp.Expr) -> exp.Expr:
        """An expression of the SELECT as it is written outside: aggregates and windows become added columns, too."""
        added: set[str] = set()
        if tree.find(exp.Star) or any(map(_names_fields, tree.walk())):
            raise Unsupported(f"{sql(tree)} depends on the names of columns")

        def aggregate(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, OF_MANY):
                return node
            added.add(name := self._add(sql(node), None))
            return exp.column(name)

        def column(node: exp.Expression) -> exp.Expression:
            return node if node.name in added else self._column_outside(node)

        return replace_columns(tree.copy().transform(aggregate), column)

    def _column_outside(self, column: exp.Expression) -> exp.Expression:
        """What stands for a column of the SELECT in an expression outside."""
        if name := self._item_named(column):
            return exp.paren(self._short(self._outside(self.named[name].tree.unalias())))
        if text := self._text_below(column):
            return exp.paren(self._short(parse(text)))
        bound = self.scope.column(column)
        check_value(bound.column)
        if self.block.aggregate and self.scope.bind(column).canonical not in self.keys:
            raise Unsupported(f"{bound.ref.text} is no key of GROUP BY")
        return exp.column(self._add(sql(column), bound.column.type))

    @staticmethod
    def _short(tree: exp.Expr) -> exp.Expr:
        """An expression in the place of a column.  Raises ``Unsupported`` for a long one, which could double again."""
        if len(sql(tree)) > _LONGEST:
            raise Unsupported("its expression is long")
        return tree

    def _text_below(self, column: exp.Expression) -> str | None:
        """The SQL of a column that is taken out of a relation below."""
        bound = self.scope.column(column)
        text = self.below.get((bound.relation, self.ctx.names.fold(bound.column.name)))
        if text:
            bound.check_no_field()
        return text

    def _add(self, text: str, type_: SqlType | None) -> str:
        """The name of the added column with this SQL inside."""
        if text not in self.added:
            self.added[text] = Column(self.ctx.fresh("late"), type_)
        return self.added[text].name


def take_out_unsafe(leaf: Leaf, block: QueryBlock, ctx: Context, above: Iterable[Scalar] = ()) -> TakenOut | None:
    """Take out the columns of a relation that a block uses above its joins only, and that could raise an error.

    ``above``: the keys of an ORDER BY above the block.  None where there is no such column, or where Spark computes all
    of them for every row as well.  Raises ``UnsafeSpeculation`` where
    one cannot be taken out.
    """
    raising = raising_columns(leaf.relation, ctx, of_aggregates=True) if leaf.in_recognized else {}
    if not raising:
        return None
    used = _Used(block, ctx, tuple(above))
    if not leaf.filtered and not used.filters_optional():
        return None
    needed, later = used.in_joins(leaf.relation, leaf.top), used.in_later_joins(leaf.relation, leaf.top)
    columns = used.columns_of(leaf.relation) | later
    if EVERY in raising and columns:
        raise UnsafeSpeculation(raising[EVERY].shown)
    names = {name for name, item in raising.items() if name not in needed and _is_lazy(item)}
    if ties := sorted(used.breaking_ties(leaf.relation, leaf.top) & raising.keys()):
        raise UnsafeSpeculation(raising[ties[0]].shown)
    if not (names if leaf.carried else names & columns) or _hashes(leaf, block, ctx):
        return None
    try:
        found = _take_out_first((names, names & columns), leaf, needed, ctx)
    except Refused as no:
        raise UnsafeSpeculation(raising[min(names)].shown, no.place, why=no.reason) from no
    return replace(found, early=bool(later & found.values.keys())) if found.values else None


def _take_out_first(choices: tuple[set[str], set[str]], leaf: Leaf, needed: Collection[str], ctx: Context) -> TakenOut:
    """Take out all columns that could raise an error, or else those of them that are used.  Raises ``Refused``."""
    everything, used = choices
    with suppress(Refused):
        return take_out(leaf, everything, ctx, needed)
    return take_out(leaf, everything if leaf.carried else used, ctx, needed)


def _hashes(leaf: Leaf, block: QueryBlock, ctx: Context) -> bool:
    """Whether Spark's own join would hash or broadcast the side of a relation, and so compute every row of it.

    Spark takes the side that it estimates to be smaller.
    """
    if ctx.force or leaf.sides is None or block.project.hint:
        return False
    own, other = ctx.statistics_of(*leaf.sides)
    return own.bytes is not None and other.bytes is not None and own.bytes * _MUCH_SMALLER < other.bytes


def _names_fields(node: exp.Expr) -> bool:
    """Whether an expression is a struct, or holds structs, whose fields have the names of columns."""
    called = node.this.upper() if isinstance(node, exp.Anonymous) and isinstance(node.this, str) else ""
    return called in _NAMING or isinstance(node, exp.Struct | exp.Tuple)


def _is_lazy(item: Scalar) -> bool:
    """Whether Spark computes an item where it is used, and not where it is written.

    It does the latter with volatile functions, users' functions, generators, and subqueries alone.
    """
    if item.known is None:
        return True

    def plain(node: exp.Expr) -> exp.Expr:
        raises = isinstance(node, exp.Anonymous) and str(node.this).upper() == "RAISE_ERROR"
        return exp.null() if raises or isinstance(node, OF_MANY) else node

    tree = item.known.unalias().copy().transform(plain)
    alone = bool(item.plans) and isinstance(tree.unnest(), exp.Column)
    return not (alone or volatile(tree) or tree.find(*_GENERATORS))


class _Used:
    """What a block uses of the relations in its FROM."""

    def __init__(self, block: QueryBlock, ctx: Context, keys: tuple[Scalar, ...]) -> None:
        self.block, self.names, self.keys = block, ctx.names, keys
        self.scope = ctx.scope(block.tree)

    def columns_of(self, relation: Logical) -> set[str]:
        """The folded names of the columns that are used above FROM."""
        above = (*self.block.project.items, *self.block.condition, *self.block.in_clauses, *self.keys)
        return self._named(relation, above)

    def in_joins(self, relation: Logical, top: Logical | None) -> set[str]:
        """The folded names of the columns that a join, and those in it, need."""
        return self._named(relation, _read_in_joins(nodes_of_from(top)) if top else ())

    def in_later_joins(self, relation: Logical, top: Logical | None) -> set[str]:
        """The folded names of the columns that other joins of FROM need."""
        inside = {id(node) for node in nodes_of_from(top)} if top else set()
        return self._named(relation, _read_in_joins(n for n in nodes_of_from(self.block.tree) if id(n) not in inside))

    def breaking_ties(self, relation: Logical, top: Logical | None) -> set[str]:
        """The folded names of the columns by which right rows of one time are ranked, and no condition compares."""
        if not isinstance(top, NearestJoin):
            return set()
        ties = self._named(relation, (Scalar(tie.text) for tie in top.nearest.ties))
        return ties - self._named(relation, top.condition)

    def filters_optional(self) -> bool:
        """Whether WHERE may leave out rows by what an outer join adds to them."""
        optional = (leaf.relation for leaf in visible_leaves(self.block.tree) if leaf.optional)
        return any(self._named(relation, self.block.condition) for relation in optional)

    def _named(self, relation: Logical, scalars: Iterable[Scalar]) -> set[str]:
        """The folded names of the columns of a relation that expressions name, or may name; ``EVERY`` if not known."""
        found: set[str] = set()
        scalars = tuple(scalars)
        for source in self.names.sources(relation):
            if source.columns is None and scalars:
                return {EVERY}
            columns = {self.names.fold(column.name) for column in source.columns or ()}
            found = found.union(*(self._in(scalar, source, columns) for scalar in scalars))
        return found

    def _in(self, scalar: Scalar, source: Source, columns: set[str]) -> set[str]:
        """The columns of a relation that an expression names, or may name."""
        fold = self.names.fold
        if scalar.plans or scalar.known is None:
            inside = (words_of(plan, self.names) for plan in scalar.plans)
            words = set(map(fold, mentioned(scalar.text))).union(*inside)
            return columns if EVERY in words else words & columns
        if has_star(scalar.tree):
            return columns
        found: set[str] = set()
        for tree in columns_in(scalar.tree):
            bound = self.scope.find(tree)
            if bound is None:
                found |= set(map(fold, column_ref(tree).parts)) & columns
            elif self.scope.source(bound) is source:
                found.add(fold(bound.column.name))
        return found


def _read_in_joins(nodes: Iterable[Node]) -> Iterator[Scalar]:
    """Yield the conditions of joins, and the expressions of what reads the relations before it in FROM."""
    for node in nodes:
        if isinstance(node, NearestJoin):
            yield from map(Scalar, node.nearest.texts)
        if isinstance(node, Join | NearestJoin):
            yield from (Scalar(quote(name)) for name in node.using)
        if leans_on_left(node):
            yield from (scalar for below in node.walk() for scalar in expressions(below))
        elif not isinstance(node, Relation):
            yield from expressions(node)
