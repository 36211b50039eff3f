"""Where a SELECT asks for scalar aggregates, and the SELECT with one relation of all of them in their places."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from planner.expr import Scalar, quote
from planner.expr.calls import unknown
from planner.logical import Join, Logical, OneRow, Project
from planner.logical.self_join import ScalarAggregates, ScalarAggregatesRow
from planner.sql.names import Unresolved
from planner.sql.to_sql import refuse_stars, star_names
from planner.tree import Node
from rules.context import Context
from rules.query.from_items import FromItem, FromItems, read_from_items
from rules.query.inner_joins import in_block, where
from rules.query.moving import block_of, has_lateral_view
from rules.query.scalar_subqueries import answered
from rules.query.standing_for import definition_of
from rules.shared_scan.scalar_aggregates import Merged, may_be_scalar_aggregate


@dataclass(frozen=True)
class Candidate:
    """A query that may be a scalar aggregate: a relation in FROM, or a subquery in an expression."""

    query: Logical
    from_item: FromItem | None


def candidates(project: Project, ctx: Context) -> list[Candidate]:
    """The queries of a SELECT that may be scalar aggregates.  Looks nothing up."""
    from_items, condition, plain = _parts(project)
    found = []
    for from_item in from_items.found if from_items else ():
        query = definition_of(from_item.relation, ctx) if from_item.kind == "inner" else None
        if query is not None and may_be_scalar_aggregate(query, ctx):
            found.append(Candidate(query, from_item))
    for scalar in (*condition, *(item for item in project.items if plain and _named(item))):

        def note(plan: Node) -> None:
            if may_be_scalar_aggregate(plan, ctx):
                found.append(Candidate(plan, None))  # type: ignore[arg-type]

        answered(scalar, note)
    return found


def _parts(project: Project) -> tuple[FromItems | None, tuple[Scalar, ...], bool]:
    """FROM, if there is one; WHERE; and whether the select list is of single rows."""
    block = block_of(project)
    plain = not any(map(_may_aggregate, project.items))
    if block is None:
        return None, (), plain and isinstance(project.child, OneRow)
    return read_from_items(block.tree), block.condition, plain and not block.more


def _may_aggregate(item: Scalar) -> bool:
    """Whether an item has an aggregate, or a function that is not known and could be one."""
    if item.known is None:
        return True
    found = (*item.tree.find_all(exp.AggFunc), *([odd] if (odd := unknown(item.tree)) else ()))
    return any(not call.find_ancestor(exp.Window) for call in found)


def _named(item: Scalar) -> bool:
    return bool(item.plans) and isinstance(item.known, exp.Alias)


class MergedSelect:
    """A SELECT, and what it becomes when its scalar aggregates are merged."""

    def __init__(self, project: Project, ctx: Context):
        self.project, self.ctx = project, ctx
        self.from_items, self.condition, _ = _parts(project)
        self.values: dict[int, str] = {}  # of a subquery in an expression, by its id
        self.instead: dict[int, Logical | None] = {}

    def block(self, groups: list[tuple[Merged, tuple[Candidate, ...]]]) -> Project:
        """The SELECT with the aggregates of each group in a relation.  Raises ``Unresolved``, ``Unsupported``."""
        if self.from_items and has_lateral_view(self.from_items.tree):
            raise Unresolved("FROM has a LATERAL VIEW")
        tree: Logical = OneRow()
        for merged, asked in groups:
            totals = self._add(merged, asked)
            if not any(one.from_item for one in asked):
                tree = self._beside(totals, tree)
        moved: tuple[Scalar, ...] = ()
        if self.from_items:
            tree, moved = self.from_items.rebuilt(self.instead, lambda conjunct: conjunct)
        condition = tuple(answered(c, lambda plan: self.values.get(id(plan))) for c in self.condition)
        items = tuple(answered(i, lambda plan: self.values.get(id(plan))) for i in self.project.items)
        for item in items:
            if item.text == "*":
                star_names(tree)
            else:
                refuse_stars(item)
        return replace(in_block(self.project, where(tree, (*condition, *moved))), items=items)  # type: ignore[return-value, type-var]

    def _beside(self, totals: ScalarAggregates, tree: Logical) -> Logical:
        """Put the scalar aggregates that no relation of FROM stands for before the first one of it."""
        if self.from_items is None:
            return totals if isinstance(tree, OneRow) else Join(tree, totals, "cross", "CROSS JOIN")
        first = self.instead.get(0) or self.from_items.found[0].relation
        self.instead[0] = Join(totals, first, "cross", "CROSS JOIN")
        return tree

    def _add(self, merged: Merged, asked: tuple[Candidate, ...]) -> ScalarAggregates:
        """Note what stands in the place of each total; return the relation that has them all."""
        for index, one in enumerate(asked):
            texts = merged.values(index)
            if one.from_item is None:
                self.values[id(one.query)] = texts[0] if merged.nullable(index) else f"if(true, {texts[0]}, NULL)"
            else:
                self.instead[one.from_item.number] = self._row(one.from_item, texts, merged.said_of(index))
        totals = ScalarAggregates(merged.query, merged.name, (), f"AS {merged.name}")
        from_items = [one.from_item for one in asked if one.from_item]
        if from_items:
            first = from_items[0].number
            if any(not from_item.free or from_item.first > first for from_item in from_items[1:]):
                raise Unresolved("one of them is in parentheses, where LATERAL cannot see the others")
            row = self.instead[first]
            assert row is not None
            self.instead[first] = Join(totals, row, "cross", "CROSS JOIN")
        return totals

    def _row(self, from_item: FromItem, texts: list[str], said: str) -> ScalarAggregatesRow:
        """A relation of one row, the columns of which are these."""
        (source,) = self.ctx.names.sources(from_item.relation)
        columns = source.columns or ()
        if len(columns) != len(texts) or not all(column.name for column in columns) or len(source.names) > 1:
            raise Unresolved("a column of one of them has no name; give it an alias")
        items = tuple(Scalar(f"{text} AS {quote(column.name)}") for text, column in zip(texts, columns, strict=True))
        alias = source.names[0] if source.names else self.ctx.fresh("t")
        return ScalarAggregatesRow(Project(OneRow(), items), alias, (), f"AS {quote(alias)}", True, columns, said)
