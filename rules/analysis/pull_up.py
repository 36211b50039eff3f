"""Decides which columns of a subquery are to be computed above the join that it is in, as Spark computes them.

Bins, sorts and running sums compute every column of every row.  Spark's generated code computes a column where it is
used, so that ``100 / v AS share`` raises no error on a row that a join leaves out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace

from planner.errors import Refused
from planner.expr import Scalar, has_star, is_star
from planner.logical import (
    Aggregate,
    BandJoin,
    Derived,
    Join,
    Logical,
    Project,
    SetOp,
    clauses_of,
    expressions,
    nodes_of_from,
)
from planner.logical.nearest_join import NearestJoin
from planner.tree import Node
from planner.types.try_expressions import UnsafeSpeculation
from rules.analysis.speculation import EVERY, raising_columns
from rules.analysis.taken_columns import TakenOut, is_lazy
from rules.analysis.taken_out import subquery_of, take_out
from rules.analysis.used_columns import UsedColumns
from rules.context import Context
from rules.query.definitions import definition_of
from rules.query.query_block import QueryBlock, read_block
from rules.query.visible_leaves import Leaf, visible_leaves

_MUCH_SMALLER = 4  # so many times, so that Spark's estimates come to the same order of sizes


def take_out_unsafe(leaf: Leaf, block: QueryBlock, ctx: Context, above: Iterable[Scalar] = ()) -> TakenOut | None:
    """Take out the columns of a relation that a block uses above its joins only, and that could raise an error.

    ``above``: the keys of an ORDER BY above the block.  None where there is no such column, or where Spark computes all
    of them for every row as well.  Raises ``UnsafeSpeculation`` where one cannot be taken out.
    """
    raising = raising_columns(leaf.relation, ctx, of_aggregates=True) if leaf.top else {}
    if not raising:
        return None
    used = UsedColumns(block, ctx, tuple(above))
    if not leaf.filtered and not used.filters_optional():
        return None
    if any(isinstance(node, Join) and node.natural for node in nodes_of_from(block.tree)):
        raise UnsafeSpeculation(raising[min(raising)].shown, why="the query has a NATURAL JOIN")
    needed, later = used.in_joins(leaf.relation, leaf.top), used.in_later_joins(leaf.relation, leaf.top)
    columns = used.columns_of(leaf.relation) | later
    if EVERY in raising and columns:
        raise UnsafeSpeculation(raising[EVERY].shown)
    needed, columns = (raising.keys() | found if EVERY in found else found for found in (needed, columns))
    names = {name for name, item in raising.items() if name not in needed and is_lazy(item)}
    if ties := sorted(used.breaking_ties(leaf.relation, leaf.top) & raising.keys()):
        raise UnsafeSpeculation(raising[ties[0]].shown)
    if isinstance(leaf.top, BandJoin) and leaf.top.kind in ("semi", "anti"):
        _check_groups(leaf.relation, needed, ctx)
    if _hashes(leaf, block, ctx):
        names -= columns
    if not (names if leaf.carried else names & columns):
        return None
    try:
        found = _take_out_most(names, columns, leaf, needed, ctx)
    except Refused as no:
        raise UnsafeSpeculation(raising[min(names)].shown, no.place, why=no.reason) from no
    _check_names(found, block, ctx)
    return replace(found, early=bool(later & found.values.keys())) if found.values or found.unused else None


def check_pull_up(query: Logical, ctx: Context) -> None:
    """Raise ``Refused`` where a column cannot be taken out of a join with nearest rows that another node has chosen."""
    for project in query.walk():
        block = read_block(project) if isinstance(project, Project) else None
        if block and any(isinstance(node, NearestJoin) and node.certain for node in nodes_of_from(block.tree)):
            for leaf in visible_leaves(block.tree):
                if not (isinstance(leaf.relation, Derived) and leaf.relation.lateral):
                    take_out_unsafe(leaf, block, ctx)


def _check_names(taken: TakenOut, block: QueryBlock, ctx: Context) -> None:
    """Raise ``Refused`` where a column could not be found by its name above the join."""
    fold = ctx.names.fold
    relations = {fold(name) for source in ctx.names.sources(block.tree) for name in source.names}
    if hiding := sorted(taken.values.keys() & relations):
        raise Refused(f"{hiding[0]} is the name of a column and of a relation")
    clauses, _ = clauses_of(block.project)
    for scalar in (*block.project.items, *(scalar for node in clauses for scalar in expressions(node))):
        if "*" in scalar.text and not is_star(scalar.tree) and has_star(scalar.tree):
            raise Refused(f"{scalar.shown} reads all columns", scalar.place)


def _take_out_most(
    names: Collection[str], columns: Collection[str], leaf: Leaf, needed: Collection[str], ctx: Context
) -> TakenOut:
    """Take out all columns that could raise an error, or else those of them that are used.  Raises ``Refused``."""
    unused = {name for name in names if name not in columns}
    with suppress(Refused):
        return take_out(leaf, names, ctx, needed, unused)
    return take_out(leaf, names if leaf.carried else {*names} - unused, ctx, needed)


def _check_groups(relation: Logical, needed: Collection[str], ctx: Context) -> None:
    """Raise ``UnsafeSpeculation`` for a grouped column that could raise an error and that an EXISTS does not need.

    Spark may compute it for the rows that EXISTS leaves, below DISTINCT and GROUP BY (``PushDownLeftSemiAntiJoin``).
    """
    query = definition_of(subquery_of(relation, ctx), ctx)
    if query is None or not any(map(_groups, query.walk())):
        return
    raising = raising_columns(relation, ctx)
    if grouped := sorted(raising.keys() - needed):
        raise UnsafeSpeculation(raising[grouped[0]].shown)


def _groups(node: Node) -> bool:
    """Whether a node groups its rows."""
    if isinstance(node, Project):
        return node.quantifier.upper() == "DISTINCT"
    return isinstance(node, Aggregate) or (isinstance(node, SetOp) and not node.is_union_all)


def _hashes(leaf: Leaf, block: QueryBlock, ctx: Context) -> bool:
    """Whether Spark's own join would hash or broadcast the side of a relation, and so compute every row of it.

    Spark takes the side that it estimates to be smaller.
    """
    if ctx.force or leaf.sides is None or block.project.hint:
        return False
    own, other = ctx.statistics_of(*leaf.sides)
    return own.bytes is not None and other.bytes is not None and own.bytes * _MUCH_SMALLER < other.bytes
