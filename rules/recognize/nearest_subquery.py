"""Recognizes subqueries that pick the nearest row: scalar ones in the select list, and LATERAL ones in FROM."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.errors import Refused
from planner.expr import HOLE, Scalar, is_star, sql
from planner.logical import Derived, Join, JoinKind, Logical, Project, Sort
from planner.logical.nearest_join import NearestJoin, NearestSubquery, ShownRelation, Sides
from rules.context import Context
from rules.nearest.picked_row import may_pick, picked_row
from rules.nearest.shown_columns import readers_of
from rules.query.query_block import QueryBlock, in_place, read_block, where
from rules.rule import rule


@rule(Project, Sort)
def nearest_subquery(node: Project | Sort, ctx: Context) -> Logical | None:
    """Join the nearest row that a correlated subquery picks, by ORDER BY and LIMIT 1 or by an aggregate.

    Spark makes of it a nested loop over all rows of the inner relation and all distinct rows of the outer one.
    """
    block = None if isinstance(ctx.above, Sort) else read_block(node)  # an ORDER BY above it has to be part of it
    if block is None or not _candidates(block):
        return None
    found = _Blocks(block, ctx)
    found.lateral()
    found.scalars()
    if not found.sides:
        return None
    new = in_place(node, block.project, found.rewritten())
    many = "subqueries" if len(found.sides) > 1 else "a subquery"
    return NearestSubquery(node, new, f"the nearest row instead of {many}", Sides(tuple(found.sides)))


def _candidates(block: QueryBlock) -> bool:
    """Whether a subquery of a block may pick a row; cheap, and never looks anything up."""
    lateral = _lateral(block.tree)
    queries = [plan for item in block.project.items for plan in item.plans]
    return any(may_pick(query) for query in (*queries, *([lateral.query] if lateral else ())))


def _lateral(tree: Logical) -> Derived | None:
    """The LATERAL subquery on the right side of a join."""
    right = tree.right if isinstance(tree, Join) else None
    return right if isinstance(right, Derived) and right.lateral else None


class _Blocks:
    """A block on its way to one over nearest rows."""

    def __init__(self, block: QueryBlock, ctx: Context):
        self.block, self.ctx = block, ctx
        self.tree, self.items = block.tree, list(block.project.items)
        self.sides: list[tuple[Logical, Logical]] = []

    def rewritten(self) -> Project:
        """The block over another FROM and select list."""
        return self.block.over(where(self.tree, self.block.condition), items=tuple(self.items))

    def lateral(self) -> None:
        """Replace the last join of FROM with a LATERAL subquery."""
        join, right = self.tree, _lateral(self.tree)
        if not isinstance(join, Join) or right is None:
            return
        block = may_pick(right.query)
        always = all(isinstance(c.tree, exp.Boolean) and c.tree.this for c in join.condition)
        if block is None or not always or join.kind not in ("inner", "cross", "left") or join.using or join.natural:
            return
        try:
            if not block.above:
                return  # an aggregate has a row in any case
            if right.alias is None:
                raise Refused("the subquery has no name")
            items = block.project.items
            names = [*right.renames] or [item.tree.alias_or_name for item in items]
            if not all(names) or len(names) != len(items) or any(is_star(item.tree) for item in items):
                raise Refused("a column of the subquery has no name")
            kind: JoinKind = "left" if join.kind == "left" else "inner"
            self.join(join.left, block, kind, right.alias, names, hidden=False)
        except Refused as no:
            self.ctx.decline(f"the subquery stays: {no.reason}", no.place or block.condition[0].place)

    def scalars(self) -> None:
        """Replace scalar subqueries of the select list."""
        for number, item in enumerate(self.items):
            if len(item.plans) != 1 or f"({HOLE}0)" not in item.text or (block := may_pick(item.plans[0])) is None:
                continue
            before, alias = self.tree, self.ctx.fresh("picked")
            try:
                if item.tree.find(exp.In, exp.Exists, exp.Lambda):
                    continue
                if not self.join(before, block, "left", alias, [f"{alias}_value"], hidden=True):
                    continue
                if not isinstance(item.tree, exp.Alias):
                    raise Refused("it has no name; give it one with AS")
            except Refused as no:
                if self.tree is not before:
                    self.tree = before
                    self.sides.pop()
                self.ctx.decline(f"the subquery stays: {no.reason}", no.place or block.condition[0].place)
                continue
            self.items[number] = Scalar(item.text.replace(f"({HOLE}0)", f"{alias}.{alias}_value"), (), item.place)

    def join(
        self, left: Logical, block: QueryBlock, kind: JoinKind, alias: str, names: list[str], *, hidden: bool
    ) -> bool:
        """Put a join with the row that a subquery picks on a FROM; returns whether it picks one."""
        picked = picked_row(left, block, (*readers_of(self.block), *self.items), self.ctx)
        if picked is None:
            return False
        if len(picked.values) != len(names):
            raise Refused("a scalar subquery has one column")
        values = tuple(sql(value.tree.unalias()) for value in picked.values)
        columns = tuple(replace(c, name=name) for c, name in zip(picked.columns, names, strict=True))
        nearest = replace(picked.nearest, right=(ShownRelation(alias, columns, values, hidden),))
        self.tree = NearestJoin(
            left,
            picked.relation,
            kind,
            "LEFT JOIN",
            picked.condition,
            nearest,
            certain=True,
        )
        self.sides.append((left, picked.relation))
        return True
