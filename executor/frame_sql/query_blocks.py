"""Writes a DataFrame as SQL: each operator adds a clause to the query block below it, or reads that as a subquery.

The readers of plans hand over operators from the innermost out.  A column has an ID, as in Spark's plans, so that two
columns of one name remain two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlglot import exp

from dovetail.executor.frame_sql.shape import PlanOperator
from dovetail.planner.catalog.settings import NameCase
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, quote, sql
from dovetail.planner.logical import (
    JOIN_KEYWORDS,
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Limit,
    Logical,
    Project,
    Scan,
    SetOp,
    Sort,
)
from dovetail.planner.logical.relations import subquery_as
from dovetail.planner.sql.to_sql import to_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Trees = dict[int, exp.Expression]


@dataclass(frozen=True)
class Item:
    """A column that a block returns: its ID, its name, and what it is over FROM."""

    id: int
    name: str
    tree: exp.Expression


@dataclass(frozen=True)
class Block:
    """A query block; ``relations``: FROM, ``columns``: the IDs of its columns.  ``has_join``: in it, or below it.

    ``filters``: conditions that may be part of a join above, since they are on relations; ``where``: other conditions.
    ``has_windows``: window functions are among its items.  ``operands``: the others of a set operation.
    """

    relations: Logical
    columns: tuple[int, ...]
    items: tuple[Item, ...]
    alias: str = ""
    has_join: bool = False
    filters: tuple[Scalar, ...] = ()
    where: tuple[Scalar, ...] = ()
    keys: tuple[Scalar, ...] = ()
    has_windows: bool = False
    is_distinct: bool = False
    operands: tuple[tuple[str, Logical], ...] = ()
    order: tuple[exp.Ordered, ...] = ()
    limit: Scalar | None = None

    @property
    def trees(self) -> Trees:
        """What the columns are over FROM, by ID."""
        return {item.id: item.tree for item in self.items}

    @property
    def names(self) -> list[str]:
        """Different names for the columns."""
        return different(item.name for item in self.items)

    @property
    def named(self) -> Trees:
        """The columns by their names in ORDER BY."""
        return {item.id: exp.column(name, quoted=True) for item, name in zip(self.items, self.names, strict=True)}

    @property
    def keeps_columns(self) -> bool:
        """Whether its items are columns of FROM, in their order: Spark has no operator for such a select list."""
        rest = iter(self.columns)
        return all(item.id in rest for item in self.items)

    @property
    def is_simple(self) -> bool:
        """Whether it is FROM and WHERE, and its items are columns, so that any clause can be added."""
        return self._has_items_only and all(isinstance(item.tree, exp.Column) for item in self.items)

    @property
    def is_selectable(self) -> bool:
        """Whether another select list can have its items in place of its own."""
        return self.is_simple or (self._has_items_only and self.has_windows)

    @property
    def _has_items_only(self) -> bool:
        return not (self.keys or self.is_distinct or self.operands or self.order or self.limit)

    def filtered(self, conditions: Iterable[exp.Expression]) -> Block:
        """Add conditions to a simple block."""
        found = tuple(map(scalar, conditions))
        if self.has_join:
            return replace(self, where=(*self.where, *found))
        return replace(self, filters=(*self.filters, *found))


@dataclass(frozen=True)
class Carried:
    """A relation of FROM: ``view`` has its rows, and is one for all relations with the same rows."""

    view: str
    part: PlanOperator
    own_names: list[str]
    names: list[str]

    def renamed(self, frame: DataFrame) -> DataFrame:
        """A DataFrame with the columns of the part, by names that differ."""
        return frame if self.names == self.own_names else frame.toDF(*self.names)


class QueryBlocks:
    """Makes the query blocks of one statement; ``carried``: its relations."""

    def __init__(self, case: NameCase) -> None:
        self.case = case
        self.carried: list[Carried] = []
        self._aliases: set[str] = set()

    def frames(self, session: SparkSession) -> dict[str, DataFrame]:
        """Return the DataFrame of each view."""
        return {view: one.renamed(one.part.frame(session)) for view, one in self.views.items()}

    @property
    def views(self) -> dict[str, Carried]:
        """The relation of each view; of several, the last."""
        return {one.view: one for one in self.carried}

    @contextmanager
    def undone_if_refused(self) -> Iterator[None]:
        """Forget the blocks made meanwhile if one is refused."""
        before = list(self.carried), set(self._aliases)
        try:
            yield
        except Refused:
            self.carried, self._aliases = before
            raise

    def write(self, block: Block, names: Sequence[str]) -> str:
        """Write a block as a statement over views; ``names``: those of its columns, which may repeat."""
        if block.order and names != block.names:  # the keys would be ambiguous
            block = self.subquery(block)
        return to_sql(self._plan(block, names))

    def scan(self, part: PlanOperator, columns: Sequence[tuple[int, str]], alias: str) -> Block:
        """Read a view of the rows of a part."""
        own = [name for _, name in columns]
        names, alias = different(own), self._new_alias(alias)
        equal = (one.view for one in self.carried if one.names == names and one.part.has_rows_of(part))
        view = next(equal, None) or _new_view_name(alias)
        self.carried.append(Carried(view, part, own, names))
        items = [Item(*column, _column(alias, name)) for column, name in zip(columns, names, strict=True)]
        return _block(Scan((view,), view, alias, (), f"AS {quote(alias)}"), items)

    def subquery(self, block: Block) -> Block:
        """Read a block as a subquery in FROM.

        Columns next to windows get their names outside: Spark keeps a column that gets one inside twice.
        """
        names, alias = block.names, self._new_alias(block.alias)
        items = [Item(i.id, i.name, _column(alias, name)) for i, name in zip(block.items, names, strict=True)]
        own = [item.name for item in block.items] if block.has_windows else names
        relation = subquery_as(self._plan(block, own), alias, tuple(names) if own != names else ())
        return replace(_block(relation, items), has_join=block.has_join)

    def simple(self, block: Block) -> Block:
        """A block that any clause can be added to."""
        return block if block.is_simple else self.subquery(block)

    def selectable(self, block: Block) -> Block:
        """A block whose select list can become another."""
        return block if block.is_selectable else self.subquery(block)

    def item_of_from(self, block: Block, kind: JoinKind) -> Block:
        """A block as a side of a join; no clause of a full join can have its filters."""
        is_item = block.is_simple and not block.where and block.keeps_columns
        return block if is_item and (kind != "full" or not block.filters) else self.subquery(block)

    def join(self, left: Block, right: Block, kind: JoinKind, condition: Iterable[exp.Expression]) -> Block:
        """Join two items of FROM; filters of either are in ON or above the join, where they mean the same."""
        on, above = tuple(map(scalar, condition)), (*left.filters, *right.filters)
        if kind in ("left", "semi", "anti"):
            above, on = left.filters, (*on, *right.filters)
        elif kind == "right":
            above, on = right.filters, (*on, *left.filters)
        if kind == "cross" and on:
            kind = "inner"
        keyword = JOIN_KEYWORDS["cross" if kind == "inner" and not on else kind]
        joined = Join(left.relations, right.relations, kind, keyword, on)
        items = left.items if kind in ("semi", "anti") else (*left.items, *right.items)
        return replace(_block(joined, items), has_join=True, filters=above)

    def sortable(self, block: Block) -> Block:
        """A block that ORDER BY can be added to."""
        return self.subquery(block) if block.order or block.limit else block

    def limit(self, block: Block, count: exp.Expression) -> Block:
        """Add LIMIT."""
        return replace(self.subquery(block) if block.limit else block, limit=scalar(count))

    def distinct(self, block: Block) -> Block:
        """Remove duplicates."""
        is_done = block.is_distinct or block.operands or block.order or block.limit
        return replace(self.subquery(block) if is_done else block, is_distinct=True)

    def operand(self, block: Block) -> Block:
        """A block as an operand of a set operation."""
        return self.subquery(block) if block.operands or block.order or block.limit else block

    def set_operation(self, blocks: Sequence[Block], keyword: str, columns: Sequence[tuple[int, str]]) -> Block:
        """Write UNION, EXCEPT or INTERSECT, whose columns are new ones."""
        first, *others = blocks
        items = tuple(Item(*column, item.tree) for item, column in zip(first.items, columns, strict=True))
        kept = tuple(new.id for item, new in zip(first.items, items, strict=True) if item.id in first.columns)
        operands = tuple((keyword, self._plan(one, one.names)) for one in others)
        has_join = any(one.has_join for one in blocks)
        return replace(first, columns=kept, items=items, operands=operands, has_join=has_join)

    def _plan(self, block: Block, names: Sequence[str]) -> Logical:
        plan, conditions = block.relations, (*block.filters, *block.where)
        plan = Filter(plan, conditions) if conditions else plan
        plan = Aggregate(plan, block.keys) if block.keys else plan
        written = tuple(self._written(block, item, name) for item, name in zip(block.items, names, strict=True))
        plan = Project(plan, written, "DISTINCT" if block.is_distinct else "")
        for keyword, operand in block.operands:
            plan = SetOp(plan, operand, keyword)
        if block.order:
            directions = (
                f"{'DESC' if key.args['desc'] else 'ASC'} NULLS {'FIRST' if key.args['nulls_first'] else 'LAST'}"
                for key in block.order
            )
            plan = Sort(plan, "ORDER BY", tuple(scalar(key.this) for key in block.order), tuple(directions))
        return Limit(plan, "LIMIT", block.limit) if block.limit else plan

    def _written(self, block: Block, item: Item, name: str) -> Scalar:
        """Write an item; a column is spelled as it is called here, since Spark takes its name from there."""
        tree = item.tree
        if isinstance(tree, exp.Column) and item.id in block.columns and self.case.is_same(tree.name, name):
            return scalar(_column(tree.table, name))
        return Scalar(f"{sql(tree)} AS {quote(name)}")

    def _new_alias(self, name: str) -> str:
        """Return an alias that no other relation has, if possible ``name``."""
        name = name or f"t{len(self._aliases) + 1}"
        while name.lower() in self._aliases:
            name = f"{name}_{len(self._aliases) + 1}"
        self._aliases.add(name.lower())
        return name


def _block(relations: Logical, items: Iterable[Item]) -> Block:
    """A block that returns the columns of FROM."""
    found = tuple(items)
    return Block(relations, tuple(item.id for item in found), found)


def scalar(tree: exp.Expression) -> Scalar:
    """Write an expression over FROM."""
    return Scalar(sql(tree))


def different(names: Iterable[str]) -> list[str]:
    """Give columns different names, also for a session that ignores their case."""
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        new, n = name or "c", 1
        while new.lower() in taken:
            new, n = f"{name}_{n + 1}", n + 1
        taken.add(new.lower())
        found.append(new)
    return found


def _column(alias: str, name: str) -> exp.Expression:
    return exp.column(name, table=alias, quoted=True)


def _new_view_name(alias: str) -> str:
    """Return a name of a temporary view that no session has."""
    name = re.sub("[^a-z0-9]+", "_", alias.lower()).strip("_")
    return f"{name if name[:1].isalpha() else f'frame_{name}'}_{uuid4().hex[:12]}"
