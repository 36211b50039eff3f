"""Subqueries that pick the nearest row: ``(SELECT q.price … WHERE q.ts <= t.ts ORDER BY q.ts DESC LIMIT 1)``.

So does an aggregate that is decided by it: ``(SELECT max_by(q.price, q.ts) … WHERE q.ts <= t.ts)``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sqlglot import exp

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.bind.scope import BoundColumn, Scope
from dovetail.planner.bind.select_list import item_at, over_from
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, is_star, quote, sql, without_parentheses
from dovetail.planner.expr.ranking import Ranking, is_windowed, sort_key
from dovetail.planner.expr.substitution import without_alias
from dovetail.planner.logical import Derived, Join, JoinKind, Limit, Logical, Sort
from dovetail.planner.logical.nearest_join import NEAREST_TIME, Nearest, ShownRelation
from dovetail.planner.tree import Node
from dovetail.planner.types.schema import Column, SqlType
from dovetail.rules.context import Context
from dovetail.rules.nearest.distance import may_be_distance, read_distance
from dovetail.rules.nearest.extremes import decided_by
from dovetail.rules.nearest.first_row import wanted_by
from dovetail.rules.nearest.pairs import Pairs, Wanted
from dovetail.rules.nearest.shown_columns import shown_relations
from dovetail.rules.query.decorrelation import check_deterministic, check_inner
from dovetail.rules.query.from_items import bare
from dovetail.rules.query.query_block import QueryBlock, read_block


@dataclass(frozen=True)
class PickedRow:
    """The relation of which a subquery picks a row, which row, and the expressions that it returns of it."""

    relation: Logical
    condition: tuple[Scalar, ...]
    nearest: Nearest
    values: tuple[Scalar, ...]
    columns: tuple[Column, ...]  # what is known of each value; without a name
    match: ShownRelation | None = None  # over whose columns the values are computed above the join


def may_pick(query: Node) -> QueryBlock | None:
    """The block of a query that may pick the nearest row; cheap, and never looks anything up."""
    block = _without_wrapper(read_block(query))
    if block is None or block.below or block.project.hint or block.project.quantifier:
        return None
    keys = [key for clause in block.above if isinstance(clause, Sort) for key in clause.keys]
    read = (*keys, *block.project.items) if any(map(_is_number, keys)) else keys
    return block if any(map(may_be_distance, read)) or any(map(looks_like_band, block.condition)) else None


def _without_wrapper(block: QueryBlock | None) -> QueryBlock | None:
    """``SELECT x.v FROM (SELECT q.price AS v, q.ts AS o … ORDER BY o LIMIT 1) AS x`` as the block inside, with item v.

    Keys of ORDER BY that are names or numbers of items become their expressions.
    """
    if block is None:
        return None
    around = block.tree
    if block.is_plain and not block.condition and isinstance(around, Derived) and len(block.project.items) == 1:
        shown, inner = block.project.items[0].tree.unalias(), read_block(around.query)
        if inner is None or not inner.above or around.lateral or around.renames or not isinstance(shown, exp.Column):
            return block
        items = [item for item in inner.project.items if item.tree.alias_or_name.lower() == shown.name.lower()]
        inner = _with_expressions(inner)
        keys = (key for clause in inner.above if isinstance(clause, Sort) for key in clause.keys)
        if len(items) != 1 or shown.table not in ("", around.alias) or any(map(_is_number, keys)):
            return block
        value, name = without_alias(items[0]), block.project.items[0].tree.alias_or_name
        item = replace(value, text=f"{value.text} AS {quote(name)}")
        return replace(inner, project=replace(inner.project, items=(item,)))
    return _with_expressions(block)


def _with_expressions(block: QueryBlock) -> QueryBlock:
    """A block whose ORDER BY has expressions in the place of the names of items, where they are spelled the same.

    And of their numbers, where no ``*`` stands for several columns.
    """
    items = block.project.items
    named = {item.tree.alias: without_alias(item) for item in items if item.tree.alias}
    numbered = () if any(is_star(item.tree) for item in items) else items

    def expression(key: Scalar) -> Scalar:
        tree = without_parentheses(key.tree)
        is_name = isinstance(tree, exp.Column) and len(tree.parts) == 1
        item = named.get(tree.name) if is_name else item_at(key, numbered)
        return key if item is None or _is_number(item) else item

    above = (replace(c, keys=tuple(map(expression, c.keys))) if isinstance(c, Sort) else c for c in block.above)
    return replace(block, above=tuple(above))


def _is_number(key: Scalar) -> bool:
    return isinstance(without_parentheses(key.tree), exp.Literal)


def relations_read(tree: Logical, block: QueryBlock, ctx: Context) -> frozenset[int]:
    """The numbers of the relations of a FROM that a subquery names, which picks a row."""
    inner = Scope.of(ctx.names, block.tree, outer=Scope.of(ctx.names, tree))
    read = (*block.condition, *block.project.items, *block.in_clauses)
    columns = (column for scalar in read for column in inner.bind(scalar).known_columns)
    return frozenset(column.relation for column in columns if column.level == 1)


@dataclass(frozen=True)
class LeftRows:
    """The rows for which a subquery picks one.

    ``tree``: the FROM whose relations the subquery can name, if it has others besides those of ``rows``; ``first``:
    the number there of the first relation of ``rows``.  ``kind``: of the join with the picked rows.
    """

    rows: Logical
    tree: Logical | None = None
    first: int = 0
    kind: JoinKind = "left"


def picked_row(
    left: LeftRows, block: QueryBlock, readers: tuple[Scalar, ...], ctx: Context, most: int = 1
) -> PickedRow | None:
    """The row that a subquery picks for each row of ``left``, or up to ``most``; None where it picks none by a time.

    Raises ``Refused`` where the subquery needs other rows as well.
    """
    check_inner(block.tree, ctx.names)
    beside = _Beside(left, block, ctx)
    condition = tuple(map(beside.scalar, block.condition))
    join = Join(left.rows, block.tree, "left", "LEFT JOIN", condition)
    pairs = Pairs(join, condition, ctx)
    values = tuple(map(beside.scalar, block.project.items))
    if block.above:
        wanted = _first_rows(block, beside, pairs, most)
    else:
        if (found := decided_by(values, pairs)) is None:
            return None
        wanted, values = found
    if wanted is None or not pairs.finds(wanted):
        return None
    for value in values:
        if is_windowed(value):
            raise Refused(f"{value.shown} is computed over all rows of the subquery", value.place)
    nearest = replace(pairs.nearest(wanted, readers), complete=wanted.near is not None)
    carried = [_of_the_match(value, wanted, pairs) for value in values]
    if None in carried or (left.kind != "left" and not all(_is_known(one) for one in carried if one)):
        try:
            match = _relation_read(values, pairs)
            columns = tuple(_column(_tree(value), pairs, pairs.scope.type_of(_tree(value))) for value in values)
            return PickedRow(block.tree, condition, nearest, values, columns, match)
        except Refused:
            if None in carried:
                raise
    columns, values = zip(*filter(None, carried), strict=True)
    return PickedRow(block.tree, condition, nearest, values, columns)


def _is_known(item: tuple[Column, Scalar]) -> bool:
    """Whether it is known of an item if it may be NULL.  Of others Spark finds out, where they are computed above."""
    return isinstance(_tree(item[1]), exp.Column) or NEAREST_TIME in item[1].text


def _relation_read(values: tuple[Scalar, ...], pairs: Pairs) -> ShownRelation:
    """The relation of the subquery with the columns that items read, which are computed above the join.

    Raises ``Refused`` where items read several relations, or may not be computed elsewhere.
    """
    for value in values:
        check_deterministic(value, pairs.scope.volatile_call)
    relations = shown_relations(values, pairs.join, pairs.ctx)[1]
    first, *others = [one for one in relations if one.columns] or relations
    if others:
        names = f"{first.name} and {others[0].name}"
        raise Refused(f"an item over both rows stands next to columns of {names}; compute it above the subquery")
    return first


def _tree(value: Scalar) -> exp.Expression:
    return value.tree.unalias()  # type: ignore[return-value]


def _of_the_match(value: Scalar, wanted: Wanted, pairs: Pairs) -> tuple[Column, Scalar] | None:
    """An item over the row that a subquery picks, and what is known of it; the distance is one over ``NEAREST_TIME``.

    None for any other.
    """
    tree = _tree(value)
    if not value.plans and pairs.side(tree) in ("right", None):
        return _column(tree, pairs), value
    try:
        distance = None if value.plans or wanted.near is None else read_distance(tree, pairs, value.place)
    except Refused:
        return None
    if distance is None or distance.right != wanted.time:
        return None
    over_time = tree.transform(lambda node: exp.column(NEAREST_TIME) if node == distance.right else node)
    nullable = any(_column(end, pairs).may_be_null for end in (distance.left, distance.right))
    return Column("", nullable=nullable), Scalar(sql(over_time), (), value.place)


def _first_rows(block: QueryBlock, beside: _Beside, pairs: Pairs, most: int) -> Wanted | None:
    """The rows that ORDER BY and LIMIT want; None where these do not pick up to ``most``.  Raises ``Refused``."""
    match block.above:
        case (Limit() as limit, Sort() as sort) if limit.keyword.upper() == "LIMIT" and sort.is_order_by:
            count = int(limit.count.text) if re.fullmatch(r"[1-9]\d?", limit.count.text) else 0
        case _:
            return None
    if not 0 < count <= most:
        return None
    keys = tuple(sort_key(beside.key(key), way) for key, way in zip(sort.keys, sort.directions, strict=True))
    wanted = wanted_by(Ranking("row_number", (), keys, ""), pairs, count)
    if wanted is not None and wanted.near is not None and count > 1:
        raise Refused(f"LIMIT {count} by a distance is not rewritten; row_number() over a join is", sort.keys[0].place)
    return wanted


class _Beside:
    """Writes the expressions of a subquery so that they mean the same in a join with the relations around it."""

    def __init__(self, left: LeftRows, block: QueryBlock, ctx: Context):
        self.first = left.first
        self.inner = Scope.of(ctx.names, block.tree, outer=Scope.of(ctx.names, left.tree or left.rows))
        self.after = Scope.of(ctx.names, left.rows, block.tree)
        self.outer_relations = len(ctx.names.sources(left.rows))
        self.items = block.project.items

    def scalar(self, scalar: Scalar) -> Scalar:
        """An expression.  Raises ``Refused`` where it cannot be written so."""
        return self.inner.bind(scalar).rebind(self.after, self._place)

    def key(self, key: Scalar) -> Scalar:
        """The same for a key of ORDER BY, which may also name items."""
        return self.scalar(over_from(key, self.items, self.inner))

    def _place(self, column: BoundColumn) -> tuple[tuple[int, int], str]:
        if not column.level:
            return (0, self.outer_relations + column.relation), column.column.name
        if not 0 <= column.relation - self.first < self.outer_relations:
            raise Refused(f"{column.ref.text} is of another relation")
        return (0, column.relation - self.first), column.column.name


def _column(tree: exp.Expression, pairs: Pairs, typed: SqlType | None = None) -> Column:
    """The type of a value, and whether it may be NULL; ``typed``: the type of one that is no column."""
    join = pairs.join
    found = pairs.ctx.scope(join.left, join.right).find(tree) if isinstance(tree, exp.Column) else None
    if found is None or found.column.field:
        return Column("", typed)
    return Column("", found.column.typed, nullable=isinstance(bare(join.right), Join) or found.column.nullable)
