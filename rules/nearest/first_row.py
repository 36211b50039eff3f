"""Reads blocks that rank their rows, and conditions that keep the first ones of each part.

SELECT …, row_number() OVER (PARTITION BY t.id ORDER BY q.ts DESC) AS n FROM … QUALIFY n = 1
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeGuard

from sqlglot import exp

from dovetail.planner.bind.names import Resolver
from dovetail.planner.conditions.compared import Comparison, compared
from dovetail.planner.errors import NoSuchColumn, Refused
from dovetail.planner.expr import Scalar, sql, without_parentheses
from dovetail.planner.expr.ranking import (
    Ranking,
    SortKey,
    is_windowed,
    read_first_value,
    read_ranking,
    read_ranking_test,
)
from dovetail.planner.logical import Filter, Logical, Sort
from dovetail.planner.logical.nearest_join import Direction
from dovetail.rules.context import Context
from dovetail.rules.nearest.distance import Distance, check_tie_breaks, may_be_distance, read_gap, sorting_distance
from dovetail.rules.nearest.pairs import Pairs, Wanted
from dovetail.rules.query.query_block import QueryBlock

MOST_ROWS = 32  # rows that may be wanted of each part: a window function finds each of them


@dataclass(frozen=True)
class FirstRow:
    """A ranking of the pairs of a block, and how many of each part the block itself keeps; 0 where it keeps all.

    ``fixed``: the items beside ``first_value``, which DISTINCT makes one row of only where all pairs have one value.
    """

    ranking: Ranking
    count: int
    fixed: tuple[Scalar, ...] = ()


def read_first_row(block: QueryBlock, ctx: Context) -> FirstRow | None:
    """Read a block that ranks its rows, and computes no other window; None for any other."""
    if block.project.quantifier.upper() == "DISTINCT":
        return _read_first_values(block)
    tests = tuple(c for clause in block.below if _is_qualify(clause) for c in clause.condition)
    if block.project.quantifier or not all(map(_is_qualify, block.below)) or not {*map(type, block.above)} <= {Sort}:
        return None
    windowed = [s for s in (*block.project.items, *tests, *_sort_keys(block)) if s.plans or is_windowed(s)]
    if len(windowed) != 1:
        return None
    if windowed[0] in tests:
        found = read_ranking_test(windowed[0])
        return FirstRow(found[0], count) if found and (count := _count(found[1], found[2])) else None
    ranking = read_ranking(windowed[0])
    if ranking is None or not ranking.name:
        return None
    count = keeps_first(tests, "", ranking.name, ctx.names)
    return FirstRow(ranking, 0 if count and _is_column(ranking.name, block, ctx) else count)


def _is_qualify(clause: Logical) -> TypeGuard[Filter]:
    return isinstance(clause, Filter) and clause.clause == "QUALIFY"


def _read_first_values(block: QueryBlock) -> FirstRow | None:
    """Read ``SELECT DISTINCT t.id, first_value(q.price) OVER (PARTITION BY t.id ORDER BY q.ts DESC)``."""
    if block.clauses:
        return None
    values = {item: read_first_value(item) for item in block.project.items if is_windowed(item)}
    rankings = {found and replace(found, name="") for found in values.values()}
    ranking = next(iter(rankings), None)
    if ranking is None or len(rankings) != 1:
        return None
    return FirstRow(ranking, 1, tuple(item for item in block.project.items if item not in values))


def _is_column(name: str, block: QueryBlock, ctx: Context) -> bool:
    """Whether FROM has a column of a name, or may have one: QUALIFY takes it before the item of that name."""
    try:
        ctx.scope(block.tree).column(exp.column(name))
    except NoSuchColumn:
        return False
    except Refused:
        return True
    return True


def keeps_first(tests: Iterable[Scalar], relation: str, name: str, names: Resolver) -> int:
    """How many rows these conjuncts keep at most by their number, a column of a relation; 0 where they keep all."""
    paths = (names.folded((name,)), names.folded((relation, name)))
    counts = (
        _count(one.sign, int(one.right.name))
        for found in map(_upper_bound, tests)
        if found is not None
        for one in (found, found.turned)
        if isinstance(one.left, exp.Column)
        and names.folded(part.name for part in one.left.parts) in paths
        and isinstance(one.right, exp.Literal)
        and one.right.is_int
    )
    return min(filter(None, counts), default=0)


def _upper_bound(test: Scalar) -> Comparison | None:
    """A comparison, or the upper one of ``n BETWEEN 1 AND 3``."""
    tree = None if test.plans else test.known
    if isinstance(tree, exp.Between):
        return Comparison(tree.this.unnest(), "<=", tree.args["high"].unnest())
    return compared(test)


def _count(sign: str, number: int) -> int:
    """How many rows a test of their number keeps at most, as ``<= 3`` does; 0 where it keeps more."""
    count = {"=": number, "<=": number, "<": number - 1}.get(sign, 0)
    return count if 0 < count <= MOST_ROWS else 0


def sorts_by_distance(ranking: Ranking) -> bool:
    """Whether a ranking may sort by a distance; cheap, and never looks anything up."""
    return any(may_be_distance(key.expression) for key in ranking.order)


def keeps_ties(ranking: Ranking) -> bool:
    """Whether a ranking gives rows that tie one number."""
    return ranking.function != "row_number"


def wanted_by(ranking: Ranking, pairs: Pairs, count: int = 1) -> Wanted | None:
    """What the first rows of a ranking need of the pairs of one left row; None where nothing right sorts them.

    Sort keys of the left side are the same for all of them.  A ranking that keeps rows that tie needs all rows of the
    nearest time, whatever its further sort keys are.  Raises ``Refused`` where it needs other rows.
    """
    keys = [key for key in ranking.order if pairs.side(key.expression.tree) not in ("left", None)]
    if not keys:
        return None
    if keeps_ties(ranking) and count > 1:
        raise Refused(f"{ranking.function}() <= {count} keeps all rows that tie; row_number() keeps {count} of them")
    first = keys[0].expression
    if distance := sorting_distance(first.tree, pairs, first.place, descending=keys[0].descending):
        if keeps_ties(ranking):
            others = "keeps all rows of one distance; row_number() keeps one of them"
            raise Refused(f"{ranking.function}() {others}", first.place)
        return _least_distant(distance, keys, pairs, count)
    if gap := read_gap(first.tree, pairs, first.place):
        if not gap.exact and (keeps_ties(ranking) or len(keys) > 1):
            raise Refused(f"rows of several times may have one {first.shown}", first.place)
        keys[0] = SortKey(Scalar(sql(gap.time), (), first.place), gap.falls != keys[0].descending, False)
    for key in keys[:1] if keeps_ties(ranking) else keys:
        if pairs.side(key.expression.tree) != "right":
            raise Refused(f"{key.expression.shown} depends on both rows of a pair", key.expression.place)
    time, *ties = keys
    way: Direction = "backward" if time.descending else "forward"
    ordered = () if keeps_ties(ranking) else tuple(map(_last_first, ties))
    return Wanted(without_parentheses(time.expression.tree), way, ordered, count)


def _least_distant(distance: Distance, keys: list[SortKey], pairs: Pairs, count: int) -> Wanted:
    """What sort keys need, the first of which is a distance.  Raises ``Refused``."""
    for key in keys[1:]:
        try:
            check_tie_breaks(distance, key.expression.tree, pairs)
        except Refused as no:
            raise Refused(no.reason, key.expression.place) from no
    ties = tuple(map(_last_first, keys[1:]))
    return Wanted(distance.right, "both", ties, count, distance.near, keys[0].nulls_first)


def _last_first(key: SortKey) -> tuple[exp.Expression, bool, bool]:
    """A sort key turned, so that the first row comes last."""
    return key.expression.tree, not key.descending, not key.nulls_first


def _sort_keys(block: QueryBlock) -> tuple[Scalar, ...]:
    return block.sort.keys if block.sort else ()
