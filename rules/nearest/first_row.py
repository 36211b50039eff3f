"""Reads blocks that rank their rows, and conditions that keep the first of each part.

SELECT …, row_number() OVER (PARTITION BY t.id ORDER BY q.ts DESC) AS n FROM … QUALIFY n = 1
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from planner.band.comparisons import bare
from planner.conditions.compared import compared
from planner.errors import NoSuchColumn, Refused
from planner.expr import Scalar
from planner.expr.ranking import Ranking, SortKey, is_windowed, read_ranking, read_ranking_test
from planner.logical import Filter, Sort
from planner.sql.names import Resolver
from rules.context import Context
from rules.nearest.pairs import Pairs, Wanted
from rules.query.query_block import QueryBlock

_FIRST = {("=", 1), ("<=", 1), ("<", 2)}


@dataclass(frozen=True)
class FirstRow:
    """A ranking of the pairs of a block; ``is_kept_here``: the block itself keeps the first of each part."""

    ranking: Ranking
    is_kept_here: bool


def read_first_row(block: QueryBlock, ctx: Context) -> FirstRow | None:
    """Read a block that ranks its rows, and computes no other window; None for any other."""
    if block.project.quantifier or any(not isinstance(clause, Sort) for clause in block.above):
        return None
    if any(not isinstance(clause, Filter) or clause.clause != "QUALIFY" for clause in block.below):
        return None
    tests = tuple(c for clause in block.below if isinstance(clause, Filter) for c in clause.condition)
    windowed = [s for s in (*block.project.items, *tests, *_sort_keys(block)) if s.plans or is_windowed(s)]
    if len(windowed) != 1:
        return None
    if windowed[0] in tests:
        found = read_ranking_test(windowed[0])
        return FirstRow(found[0], True) if found and found[1:] in _FIRST else None
    ranking = read_ranking(windowed[0])
    if ranking is None or not ranking.name:
        return None
    return FirstRow(
        ranking, keeps_first(tests, "", ranking.name, ctx.names) and not _is_column(ranking.name, block, ctx)
    )


def _is_column(name: str, block: QueryBlock, ctx: Context) -> bool:
    """Whether FROM has a column of a name, or may have one: QUALIFY takes it before the item of that name."""
    try:
        ctx.scope(block.tree).column(exp.column(name))
    except NoSuchColumn:
        return False
    except Refused:
        return True
    return True


def keeps_first(tests: Iterable[Scalar], relation: str, name: str, names: Resolver) -> bool:
    """Whether one of these conjuncts keeps only rows whose number, a column of a relation, is 1."""
    paths = ([names.fold(name)], [names.fold(relation), names.fold(name)])
    return any(
        isinstance(one.left, exp.Column)
        and [names.fold(part.name) for part in one.left.parts] in paths
        and isinstance(one.right, exp.Literal)
        and one.right.is_int
        and (one.sign, int(one.right.name)) in _FIRST
        for found in map(compared, tests)
        if found is not None
        for one in (found, found.turned)
    )


def wanted_by(ranking: Ranking, pairs: Pairs) -> Wanted | None:
    """What a ranking needs of the pairs of one left row; None where it sorts them by nothing of the right side.

    Sort keys of the left side are the same for all of them.  Raises ``Refused`` where it needs more than one row.
    """
    keys = [key for key in ranking.order if pairs.side(key.expression.tree) not in ("left", None)]
    if not keys:
        return None
    if ranking.function != "row_number":
        raise Refused(f"{ranking.function}() keeps all rows that tie; row_number() keeps one of them")
    for key in keys:
        if pairs.side(key.expression.tree) != "right":
            raise Refused(f"{key.expression.shown} depends on both rows of a pair", key.expression.place)
    time, *ties = keys
    return Wanted(
        bare(time.expression.tree), "backward" if time.descending else "forward", tuple(map(_last_first, ties))
    )


def _last_first(key: SortKey) -> tuple[exp.Expression, bool, bool]:
    """A sort key turned, so that the first row comes last."""
    return key.expression.tree, not key.descending, not key.nulls_first


def _sort_keys(block: QueryBlock) -> tuple[Scalar, ...]:
    return block.sort.keys if block.sort else ()
