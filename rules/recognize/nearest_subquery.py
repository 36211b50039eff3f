"""Recognizes subqueries that pick the nearest row: scalar ones in select lists and conditions, LATERAL ones in FROM."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dovetail.planner.conditions.normal_form import normal_form
from dovetail.planner.errors import Place, Refused
from dovetail.planner.expr import HOLE, Scalar, is_star, output_name, sql
from dovetail.planner.logical import Derived, Join, JoinKind, Logical, Project, Sort
from dovetail.planner.logical.nearest_join import Joins, NearestJoin, NearestSubquery, ShownRelation
from dovetail.planner.logical.relations import references_left
from dovetail.rules.context import Context
from dovetail.rules.nearest.first_row import MOST_ROWS
from dovetail.rules.nearest.kept_rows import kept_rows
from dovetail.rules.nearest.picked_row import LeftRows, may_pick, picked_row, relations_read
from dovetail.rules.nearest.shown_columns import all_readers_of
from dovetail.rules.query.query_block import QueryBlock, where
from dovetail.rules.query.star_columns import expand_items
from dovetail.rules.rule import rule


@rule(Project, Sort, block=True, needs=("subquery",))
def nearest_subquery(block: QueryBlock, ctx: Context) -> Logical | None:
    """Join the nearest row that a correlated subquery picks, by ORDER BY and LIMIT 1 or by an aggregate.

    Spark makes of it a nested loop over all rows of the inner relation and all distinct rows of the outer one.
    """
    if not any(map(may_pick, block.subqueries)):
        return None
    found = _Blocks(block, ctx)
    found.tree = found.lateral(block.tree)
    found.conditions()
    found.scalars()
    if not found.joins:
        return None
    new = block.put(found.rewritten())
    many = "subqueries" if len(found.joins) > 1 else "a subquery"
    return NearestSubquery(block.query, new, f"the nearest row instead of {many}", Joins(tuple(found.joins)))


def _place(block: QueryBlock) -> Place | None:
    """The place of a subquery: its first condition, or else its first item."""
    return next((scalar.place for scalar in (*block.condition, *block.project.items)), None)


_KEEPS_LEFT = ("inner", "cross", "left")


@dataclass(frozen=True)
class _Shown:
    """The relation of a picked row: its name, its columns, and how it is joined.

    It is ``hidden`` from ``*`` if it stands for a scalar subquery, and then has the one column ``alias_value``.
    ``item`` is the item of the select list that has this subquery, if one has it.
    """

    alias: str
    names: tuple[str, ...] = ()
    kind: JoinKind = "left"
    hidden: bool = True
    item: Scalar | None = None


def _shown(subquery: Derived, block: QueryBlock, kind: JoinKind) -> _Shown:
    """The relation that a LATERAL subquery of FROM is.  Raises ``Refused`` where a column has no name."""
    names = subquery.renames or tuple(map(output_name, block.project.items))
    return _Shown(subquery.alias or "", names, kind, hidden=False)


class _Blocks:
    """A block on its way to one over nearest rows."""

    def __init__(self, block: QueryBlock, ctx: Context):
        self.block, self.ctx = block, ctx
        self.tree, self.items, self.condition = block.tree, list(block.project.items), block.condition
        self.readers = tuple(all_readers_of(block))
        self.joins: list[NearestJoin] = []

    def rewritten(self) -> Project:
        """The block over another FROM and select list."""
        return self.block.over(where(self.tree, self.condition), items=tuple(self.items))

    def lateral(self, tree: Logical, *, keeps: bool = True) -> Logical:
        """FROM with joins in the place of LATERAL subqueries that pick a row, the first one first.

        ``keeps``: whether no join above fills the rows of ``tree`` with NULL.
        """
        if not isinstance(tree, Join):
            return tree
        left = self.lateral(tree.left, keeps=keeps and tree.kind in _KEEPS_LEFT)
        join = tree if left is tree.left else replace(tree, left=left)
        movable = keeps and join.kind == "inner"
        picked = self.picked(replace(join, condition=()) if movable else join, join.right, keeps=keeps)
        if picked is not None and movable:
            self.condition = (*join.condition, *self.condition)
        return picked or join

    def picked(self, join: Join, right: Logical, *, keeps: bool) -> NearestJoin | None:
        """The join with the row that its right side picks, a LATERAL subquery; None for any other right side."""
        if not isinstance(right, Derived) or not right.lateral:
            return None
        block = may_pick(right.query)
        is_true = all(isinstance(c.tree, exp.Boolean) and c.tree.this for c in normal_form(join.condition))
        if block is None or not (block.above or block.is_aggregated):
            return None
        if not is_true or join.kind not in ("inner", "cross", "left") or join.using or join.natural:
            return None
        try:
            if any(is_star(item.tree) for item in block.project.items):
                items = expand_items(block.project.items, block.tree, self.ctx.names)
                block = replace(block, project=replace(block.project, items=items))
            always = join.kind == "left" or not block.above  # an aggregate has a row in any case
            shown = _shown(right, block, "left" if always else "inner")
            return self.join(LeftRows(join.left), block, shown, keeps=keeps)
        except Refused as no:
            return self.ctx.decline(f"the subquery stays: {no.reason}", no.place or _place(block))

    def conditions(self) -> None:
        """Replace scalar subqueries of WHERE; Spark has none in ON that read other relations."""
        self.condition = tuple(map(self.test, self.condition))

    def test(self, test: Scalar) -> Scalar:
        """A condition with the picked value instead of its subquery, where it picks one."""
        block = self.picking(test)
        if block is None:
            return test
        alias = self.ctx.fresh("picked")
        try:
            read, tree = relations_read(self.tree, block, self.ctx), self.tree

            def place(at: Logical, first: int) -> Logical | None:
                """The rows with the picked value: the fewest that have all columns which the subquery reads."""
                side = self.side_with(at, first, read)
                if isinstance(at, Join) and side is not None:
                    on_left, number = side
                    below = place(at.left if on_left else at.right, number)
                    return below and (replace(at, left=below) if on_left else replace(at, right=below))
                return self.join(LeftRows(at, tree, first), block, _Shown(alias))

            self.tree, found = place(self.tree, 0) or tree, self.tree
            return test if self.tree is found else _with_value(test, alias)
        except Refused as no:
            self.ctx.decline(f"the subquery stays: {no.reason}", no.place or _place(block))
            return test

    def side_with(self, tree: Logical, first: int, read: frozenset[int]) -> tuple[bool, int] | None:
        """Whether the left side of a join has some relations, or the right one, and the number of its first relation.

        ``first``: the number of the first relation of the join.  None where neither side has all of them.
        """
        if not isinstance(tree, Join) or tree.using or tree.natural or tree.kind not in _KEEPS_LEFT or not read:
            return None
        middle = first + len(self.ctx.names.sources(tree.left))
        if max(read) < middle:
            return True, first
        if min(read) >= middle and tree.kind != "left" and not references_left(tree.right):
            return False, middle
        return None

    def scalars(self) -> None:
        """Replace scalar subqueries of the select list."""
        for number, item in enumerate(self.items):
            if (block := self.picking(item)) is None:
                continue
            alias = self.ctx.fresh("picked")
            try:
                new = self.join(LeftRows(self.tree), block, _Shown(alias, item=item))
                if new is None:
                    continue
            except Refused as no:
                self.ctx.decline(f"the subquery stays: {no.reason}", no.place or _place(block))
                continue
            self.tree, self.items[number] = new, _with_value(item, alias)

    def picking(self, scalar: Scalar) -> QueryBlock | None:
        """The block of the one scalar subquery of an expression, if it may pick a row."""
        if len(scalar.plans) != 1 or f"({HOLE}0)" not in scalar.text or (block := may_pick(scalar.plans[0])) is None:
            return None
        return None if scalar.tree.find(exp.In, exp.Exists, exp.Lambda) else block

    def join(self, left: LeftRows, block: QueryBlock, shown: _Shown, *, keeps: bool = True) -> NearestJoin | None:
        """A join with the row that a subquery picks; None if it picks none.

        One whose columns a ``*`` shows, since it stands in FROM, may pick several rows.
        """
        readers = (*self.readers, *self.items, *self.condition)
        joined = replace(left, kind=shown.kind)
        picked = picked_row(joined, block, readers, self.ctx, most=1 if shown.hidden else MOST_ROWS)
        if picked is None:
            return None
        if shown.item:
            output_name(shown.item)
        names = shown.names or (f"{shown.alias}_value",)
        if len(picked.values) != len(names):
            raise Refused("a scalar subquery has one column")
        values = tuple(sql(value.tree.unalias()) for value in picked.values)
        columns = tuple(replace(c, name=name) for c, name in zip(picked.columns, names, strict=True))
        kept = kept_rows(self.block.condition, (self.tree,), left.rows, left.first, self.ctx) if keeps else ()
        relation = ShownRelation(shown.alias, columns, values, shown.hidden, picked.match)
        nearest = replace(picked.nearest, right=(relation,), kept=kept)
        join = NearestJoin(left.rows, picked.relation, shown.kind, "LEFT JOIN", picked.condition, nearest, certain=True)
        self.joins.append(join)
        return join


def _with_value(scalar: Scalar, alias: str) -> Scalar:
    """An expression with the value of a relation that has picked it instead of its subquery."""
    return Scalar(scalar.text.replace(f"({HOLE}0)", f"{alias}.{alias}_value"), (), scalar.place)
