"""Decides which columns of a subquery are to be computed above the join that it is in, as Spark computes them.

Bins, sorts and running sums compute every column of every row.  Spark's generated code computes a column where it is
used, so that ``100 / v AS share`` raises no error on a row that a join leaves out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace

from sqlglot import exp

from planner.errors import Refused
from planner.expr import Scalar
from planner.expr.calls import volatile
from planner.types.try_expressions import UnsafeSpeculation
from rules.analysis.speculation import EVERY, OF_MANY, raising_columns
from rules.analysis.taken_out import TakenOut, take_out
from rules.analysis.used_columns import UsedColumns
from rules.context import Context
from rules.query.query_block import QueryBlock
from rules.query.visible_leaves import Leaf

_GENERATORS = (exp.Explode, exp.Posexplode, exp.Inline)
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
