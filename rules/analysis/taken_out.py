"""Takes computed columns out of a subquery in FROM, so that the query around it can compute them above its joins.

    (SELECT lo, hi, 100 / v AS share FROM i) z      (SELECT lo, hi, v AS c1 FROM i) z,  z.share is 100 / c1

Where an outer join may show NULLs instead of a row of the subquery, one more column tells: ``if(c2, 100 / c1, NULL)``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from sqlglot import exp

from planner.errors import NoSuchColumn, Unsupported
from planner.expr import Scalar, columns_in, has_star, is_star, sql
from planner.expr.scalar import parse
from planner.expr.substitution import replace_columns
from planner.expr.tokens import mentioned
from planner.logical import (
    Cte,
    Filter,
    Join,
    Limit,
    Logical,
    Opaque,
    Relation,
    Scan,
    SetOp,
    With,
    expressions,
    nodes_of_from,
)
from planner.logical.nearest_join import NearestJoin
from planner.types.schema import Column
from rules.analysis.speculation import OF_MANY, name_of, raising_columns
from rules.analysis.taken_columns import TakenOut, is_lazy
from rules.analysis.union_parts import UnionParts
from rules.analysis.used_columns import UsedColumns
from rules.context import Context
from rules.query.char_columns import check_value
from rules.query.correlation import words_of
from rules.query.definitions import definition_of
from rules.query.from_items import with_leaves
from rules.query.query_block import QueryBlock, in_place, read_block, where
from rules.query.subquery_columns import over_subquery
from rules.query.view_as_subquery import read_view, view_as_subquery
from rules.query.visible_leaves import Leaf, visible_leaves

_NAMING = ("STRUCT", "ARRAYS_ZIP")  # these name fields after columns
_LONGEST = 500  # characters of an expression that takes the place of a column in another one


def take_out(
    leaf: Leaf, names: Collection[str], ctx: Context, needed: Collection[str] = (), unused: Collection[str] = ()
) -> TakenOut:
    """Take computed columns, by their folded names, out of a subquery, a name of WITH, or a view.

    ``needed`` are columns that have to stay.  So do those that Spark computes for every row in any case: below DISTINCT
    and set operations other than UNION ALL, and the keys of GROUP BY.  ``unused`` are columns that nothing reads: they
    have no values.  Raises ``Refused`` where a column cannot be computed outside.
    """
    relation = subquery_of(leaf.relation, ctx)
    query = definition_of(relation, ctx)
    if query is None:
        raise Unsupported(f"{_name(relation)} is not a subquery")
    if isinstance(query, SetOp) and not query.is_union_all:
        return TakenOut(relation, {})
    renames = relation.renames if isinstance(relation, Relation) else ()
    if renames or (isinstance(relation, Scan) and ctx.definitions[relation.cte].renames):
        raise Unsupported(f"the columns of {_name(relation)} are renamed")
    if isinstance(relation, Scan) and (reason := ctx.nonrepeatable_reason(relation)):
        raise Unsupported(reason)
    if isinstance(query, SetOp):
        union = UnionParts(query, ctx)
        union.check_types(set(names) - set(unused))
        taken = take_out(Leaf(union.left), names, ctx, needed, unused)
        beside = take_out(Leaf(union.right), union.in_right(names), ctx, union.in_right(needed), union.in_right(unused))
        found = union.without(taken, beside, optional=leaf.optional)
    elif (block := read_block(query)) is None:
        raise Unsupported(f"{_name(relation)} is not a subquery of one SELECT")
    elif block.project.quantifier.upper() == "DISTINCT":
        return TakenOut(relation, {})
    elif any(not isinstance(clause, With | Limit) for clause in block.above):
        raise Unsupported(f"{_name(relation)} is sorted")
    else:
        found = _Taking(block, names, needed, frozenset(unused), ctx).taken_out(optional=leaf.optional)
        found = replace(found, relation=in_place(query, block.project, found.relation))
    return replace(found, relation=over_subquery(relation, found.relation, ctx))


def subquery_of(relation: Logical, ctx: Context) -> Logical:
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

    def __init__(
        self, block: QueryBlock, names: Collection[str], needed: Collection[str], unused: frozenset[str], ctx: Context
    ) -> None:
        fold, items = ctx.names.fold, block.project.items
        self.block, self.ctx, self.scope = block, ctx, ctx.scope(block.tree)
        # Of VALUES and table functions no columns are known; a name means the same to Spark in an item that is added.
        self.opaque = any(isinstance(leaf.relation, Opaque) for leaf in visible_leaves(block.tree))
        self.stars = [item for item in items if is_star(item.tree)]
        self.needed = needed
        if any(isinstance(node, Join) and node.natural for node in nodes_of_from(block.tree)):
            raise Unsupported("the subquery has a NATURAL JOIN")
        named = [(fold(name), item) for item in items if not is_star(item.tree) and (name := name_of(item))]
        self.named = dict(named)
        if len(self.named) < len(named):
            raise Unsupported("two columns of a subquery have the same name")
        earlier: set[str] = set()
        for name, item in named:
            if not item.plans and not self._items_read(item) <= earlier:
                raise Unsupported(f"{item.shown} reads a later item")
            earlier.add(name)
        stay = set(needed).union(*map(self._items_read, (*block.condition, *block.in_clauses)))
        for node in block.below:
            if isinstance(node, Filter):  # HAVING and QUALIFY mean an item even where FROM has a column of its name
                stay |= {fold(word) for scalar in node.condition for word in mentioned(scalar.text)} & self.named.keys()
        while more := {name for item in stay & self.named.keys() for name in self._items_read(self.named[item])} - stay:
            stay |= more
        self.taken = {name: item for name, item in named if name in names and name not in stay}
        while more := {n for n, item in named if n not in self.taken and self._items_read(item) & self.taken.keys()}:
            self.taken |= {name: self.named[name] for name in more}
        read = self.taken.keys() - unused
        while more := set().union(*(self._items_read(self.taken[name]) for name in read)) & self.taken.keys() - read:
            read |= more
        self.unused = unused - read
        self.starred = set(names) - self.taken.keys() if self.stars else set()
        self.keys = self._keys_of_groups()
        self.below: dict[tuple[int, str], str] = {}
        self.added: dict[str, Column] = {}
        self.passed: list[Column] = []
        self.unused_below: set[str] = set()

    def _items_read(self, scalar: Scalar) -> set[str]:
        """The items of the select list that an expression names, as later items and HAVING may."""
        if scalar.plans:
            words = set(map(self.ctx.names.fold, mentioned(scalar.text)))
            return words.union(*(words_of(plan, self.ctx.names) for plan in scalar.plans)) & self.named.keys()
        return {name for column in columns_in(scalar.tree) if (name := self._item_named(column))}

    def _item_named(self, column: exp.Expr) -> str | None:
        """The folded name of the item that a column means, where FROM has no such column."""
        name = self.ctx.names.fold(column.name)
        if name not in self.named or self.opaque:
            return None
        try:
            self.scope.column(column)
        except NoSuchColumn:
            return name
        return None

    def taken_out(self, *, optional: bool) -> TakenOut:
        """The SELECT instead of a relation, and the columns that are taken out of it."""
        tree = self._take_below()
        if any(item.plans for item in self._read.values()):
            raise Unsupported("it has a subquery")
        for item in self.taken.values():
            if not is_lazy(item):
                raise Unsupported(f"{item.shown} is computed where it is written")
        values = {name: sql(self._outside(item.tree.unalias())) for name, item in self._read.items()}
        values |= {name: text for (_, name), text in self.below.items() if name in self.starred}
        if optional and values:
            there = self._add("true", Column("", nullable=False))
            values = {name: f"if({there}, {text}, NULL)" for name, text in values.items()}
        if not self.block.aggregate and any(map(_aggregates, self.taken.values())):  # also without them this is one row
            self._add("count(*)", Column("", nullable=False))
        if not (self.others or self.added or self.passed):  # a select list needs an item
            self._add("true", Column("", nullable=False))
        added = [Scalar(f"{text} AS {column.name}") for text, column in self.added.items()]
        passed = [] if self.stars else [Scalar(column.name) for column in self.passed]
        project = self.block.over(where(tree, self.block.condition), items=(*self.others, *added, *passed))
        unused = self.unused & (self.taken.keys() | self.unused_below)
        return TakenOut(project, values, (*self.added.values(), *self.passed), unused)

    @property
    def others(self) -> list[Scalar]:
        """The items that stay, in their order."""
        return [item for item in self.block.project.items if item not in self.taken.values()]

    @property
    def _read(self) -> dict[str, Scalar]:
        """The taken items that something reads, by their folded names."""
        return {name: item for name, item in self.taken.items() if name not in self.unused}

    def _take_below(self) -> Logical:
        """FROM, without the columns that could raise an error and that only taken columns need."""
        self._check_positions()
        for name in [name for name, item in self.taken.items() if self._is_key(name, item.tree.unalias())]:
            del self.taken[name]
        tree = self.block.tree
        for leaf in visible_leaves(tree):
            if names := self._raising_below(leaf):
                if isinstance(leaf.top, NearestJoin):
                    raise Unsupported("the subquery joins nearest rows")
                found = take_out(leaf, names, self.ctx, unused=self.unused & self.starred - self._words())
                tree = with_leaves(tree, {id(leaf.relation): found.relation})
                self.passed += found.added
                self.unused_below |= found.unused
                (source,) = self.ctx.names.sources(leaf.relation)
                number = next((n for n, one in enumerate(self.scope.sources) if one is source), -1)
                self.below |= {(number, name): text for name, text in found.values.items()}
        for name, item in [*self.taken.items()]:
            if self._is_computed_below(item.tree.unalias()):
                del self.taken[name]
        return tree

    def _keys_of_groups(self) -> frozenset[str]:
        """The expressions of GROUP BY in canonical form, and the items that it names."""
        found = set()
        for key in self.block.aggregate.keys if self.block.aggregate else ():
            known = all(self.scope.find(column) for column in columns_in(key.tree))
            found.add(self.scope.bind(key).canonical if known else self.ctx.names.fold(key.tree.name))
        return frozenset(found)

    def _is_key(self, name: str, tree: exp.Expr) -> bool:
        """Whether an item is a key of GROUP BY, or computed from such alone."""
        aggregate = self.block.aggregate
        if not aggregate or tree.find(*OF_MANY) or (isinstance(tree, exp.Column) and self._item_named(tree)):
            return False
        return bool(aggregate.sets) or name in self.keys or self.scope.bind(tree).canonical in self.keys

    def _is_computed_below(self, tree: exp.Expr) -> bool:
        """Whether an item is a column of a relation that computes it for every row."""
        return isinstance(tree, exp.Column) and not self._item_named(tree) and not self._text_below(tree)

    def _check_positions(self) -> None:
        """Raise ``Unsupported`` where GROUP BY names items by their positions, which other items would come to."""
        items = self.block.project.items
        keys = self.block.aggregate.keys if self.block.aggregate else ()
        positions = [int(key.text) for key in keys if key.text.isdigit()]
        gone = [n for n, item in enumerate(items, 1) if item in self.taken.values() or is_star(item.tree)]
        if positions and gone and min(gone) <= max(positions):
            raise Unsupported("GROUP BY names items by their positions")

    def _words(self) -> set[str]:
        """The folded words of the taken items that something reads."""
        return {self.ctx.names.fold(word) for item in self._read.values() for word in mentioned(item.text)}

    def _raising_below(self, leaf: Leaf) -> set[str]:
        """The columns of a relation that could raise an error, and that nothing but taken columns needs."""
        fold, names = self.ctx.names.fold, self.ctx.names
        wanted = self._words() | self.starred
        found = raising_columns(leaf.relation, self.ctx, of_aggregates=True).keys() & wanted
        if not found:
            return set()
        if any(len(names.starred(star.tree, self.scope.sources)) < len(self.scope.sources) for star in self.stars):
            raise Unsupported("a subquery shows all columns of only one of its relations")
        aggregates = (sql(node) for item in self._read.values() for node in item.tree.find_all(*OF_MANY))
        found -= {fold(word) for text in aggregates for word in mentioned(text)}
        if self.stars:
            found -= set(self.needed)
        rest = tuple(item for item in self.others if item not in self.stars)
        block = replace(self.block, project=replace(self.block.project, items=rest))
        if found and (star := next((c for c in _inside(block) if c.known and has_star(c.known)), None)):
            raise Unsupported(f"{star.shown} reads all columns")
        used = UsedColumns(block, self.ctx)
        return found - used.columns_of(leaf.relation) - used.in_joins(leaf.relation, block.tree)

    def _outside(self, tree: exp.Expr) -> exp.Expr:
        """An expression of the SELECT as it is written outside: aggregates and windows become added columns, too."""
        added: set[str] = set()
        if has_star(tree) or any(map(_names_fields, tree.walk())):
            raise Unsupported(f"{sql(tree)} depends on the names of columns")

        def aggregate(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, OF_MANY):
                return node
            added.add(name := self._add(sql(node), Column("")))
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
        if self.opaque and self.scope.find(column) is None:
            return exp.column(self._add(sql(column), Column("")))
        bound = self.scope.column(column)
        check_value(bound.column)
        if self.block.aggregate and self.scope.bind(column).canonical not in self.keys:
            raise Unsupported(f"{bound.ref.text} is no key of GROUP BY")
        return exp.column(self._add(sql(column), bound.column))

    @staticmethod
    def _short(tree: exp.Expr) -> exp.Expr:
        """An expression in the place of a column.  Raises ``Unsupported`` for a long one, which could double again."""
        if len(sql(tree)) > _LONGEST:
            raise Unsupported("its expression is long")
        return tree

    def _text_below(self, column: exp.Expression) -> str | None:
        """The SQL of a column that is taken out of a relation below."""
        bound = self.scope.find(column)
        text = bound and self.below.get((bound.relation, self.ctx.names.fold(bound.column.name)))
        if bound and text:
            bound.check_no_field()
        return text or None

    def _add(self, text: str, column: Column) -> str:
        """The name of the added column with this SQL inside, which has the type of another column."""
        if text not in self.added:
            self.added[text] = replace(column, name=self.ctx.fresh("late"), field=())
        return self.added[text].name


def _inside(block: QueryBlock) -> Iterator[Scalar]:
    """All expressions of a SELECT, without those of subqueries."""
    yield from (*block.project.items, *block.condition, *block.in_clauses)
    for node in nodes_of_from(block.tree):
        yield from () if isinstance(node, Relation) else expressions(node)


def _aggregates(item: Scalar) -> bool:
    """Whether an item has an aggregate that is not in a window."""
    found = item.tree.find_all(exp.AggFunc, exp.AnonymousAggFunc)
    return any(not one.find_ancestor(exp.Window) for one in found)


def _names_fields(node: exp.Expr) -> bool:
    """Whether an expression is a struct, or holds structs, whose fields have the names of columns."""
    called = node.this.upper() if isinstance(node, exp.Anonymous) and isinstance(node.this, str) else ""
    return called in _NAMING or isinstance(node, exp.Struct | exp.Tuple)
