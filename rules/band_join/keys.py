"""Equi-keys of a band join: whether they exist, match at most one row, and how many pairs they leave."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from sqlglot import exp

from dovetail.planner.band.condition import Band, DistanceBand
from dovetail.planner.band.linear import ConditionScope, Leaf, Side
from dovetail.planner.catalog.cost import KEY_SAMPLE, count_pairs
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.conditions.compared import Comparison, compared
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql
from dovetail.planner.logical import BandJoin, Join, Logical
from dovetail.rules.analysis.sizes import Sizes
from dovetail.rules.analysis.unique import unique_keys
from dovetail.rules.context import Context
from dovetail.rules.query.condition_scope import condition_scope, equalities
from dovetail.rules.query.from_items import bare
from dovetail.rules.query.rows_inside import rows_inside

Samples = tuple[list[float | None], list[float | None]]


def has_keys(join: BandJoin) -> bool:
    """Whether the condition contains an equality, judged by its syntax."""
    return any(map(_operands, join.condition))


def has_keys_of_both_sides(join: BandJoin, ctx: Context) -> bool:
    """Whether an equality of the condition compares the two sides, so that Spark can join on it."""
    return any(equalities(join.condition, condition_scope(join, ctx)))


def matches_at_most_one(join: BandJoin, ctx: Context) -> bool:
    """Whether the equalities of the condition contain a unique key of one side, judged by plain columns."""
    if not has_keys(join):
        return False
    sides = [ctx.names.sources(join.left), ctx.names.sources(join.right)]
    scope, equal = ctx.scope(join.left, join.right), (set[str](), set[str]())
    try:
        for end in (operand for c in join.condition for operand in _operands(c)):
            if isinstance(end, exp.Column):
                found = scope.column(end).check_no_field()
                equal[found.relation >= len(sides[0])].add(found.name)
    except Refused:
        return False
    relations = zip((join.left, join.right), sides, equal, strict=True)
    return any(len(s) == 1 and any(key <= names for key in unique_keys(r, ctx)) for r, s, names in relations)


def share_of_equal_keys(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> float | None:
    """Estimate the share of all pairs that have equal keys, from a sample of each side; None if unknown."""
    if left.rows is None or right.rows is None or not (keys := _keys(join, ctx)):
        return None
    if not (left.plain and right.plain):
        return key_share((join.left, join.right), keys, left, right, ctx)
    rows = sample_rows(join, left, right, ctx)
    return _share(rows.keys, left, right) if rows else None


def matches_of_a_join(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> tuple[float, Side] | None:
    """Estimate how many rows of one side have the key of a row of the other, which is a join; also return that side.

    Spark knows no size of a join, whose rows may be any share of the pairs below.  None where the first side is not
    cheap to read.
    """
    sides: tuple[tuple[Side, Logical, Statistics], ...] = (("left", join.left, left), ("right", join.right, right))
    for number, (side, relation, _) in enumerate(sides):
        _, other, size = sides[1 - number]
        keys = [key[1 - number] for key in _keys(join, ctx)]
        if not isinstance(bare(relation), Join | BandJoin) or not (size.plain and size.rows and keys):
            continue
        samples = ctx.samples(((other, _key(keys), size),), KEY_SAMPLE)
        rows = [row[0] for row in samples[0]] if samples else []
        if len(rows) > 1:
            return _share_of_others(rows) * size.rows, side
    return None


def key_share(
    sides: tuple[Logical, Logical], keys: list[tuple[str, str]], left: Statistics, right: Statistics, ctx: Context
) -> float | None:
    """The same for two relations and the left and right operands of their equalities.

    The keys of a subquery that adds windows to rows are those of the rows inside, which are cheap to read.
    """
    if left.rows is None or right.rows is None:
        return None
    read = []
    for number, (side, size) in enumerate(zip(sides, (left, right), strict=True)):
        found = side, [key[number] for key in keys], size
        readable = found if size.plain else _inside(*found[:2], ctx)
        if readable is None:
            return None
        read.append((readable[0], _key(readable[1]), readable[2]))
    samples = ctx.samples(tuple(read), KEY_SAMPLE)
    if samples is None:
        return None
    first, second = ([row[0] for row in rows] for rows in samples)
    return _share((first, second), left, right)


def pair_counter(
    sides: tuple[Logical, Logical], keys: list[tuple[str, str]], sizes: Sizes, ctx: Context
) -> Callable[[Sizes], float | None]:
    """Return a function that estimates the pairs with equal keys for any sizes of both sides; it takes one sample.

    Without keys, and with ``force``, it counts all pairs; it returns None if the number is unknown.
    """
    share = cache(lambda: key_share(sides, keys, *sizes, ctx))

    def count(sizes: Sizes) -> float | None:
        pairs = count_pairs(*sizes)
        if pairs is None or not keys or ctx.force:
            return pairs
        return None if share() is None else pairs * (share() or 0)

    return count


def _inside(side: Logical, keys: list[str], ctx: Context) -> tuple[Logical, list[str], Statistics] | None:
    """The rows inside a subquery, and expressions over it as those over these; None if they are not cheap to read."""
    rows = rows_inside(side, ctx)
    if rows is None or not (size := ctx.statistics(rows.table)).plain:
        return None
    with suppress(Refused):
        return rows.table, [rows.expression(key) for key in keys], size
    return None


def _share(samples: Samples, left: Statistics, right: Statistics) -> float | None:
    """The share of pairs with equal keys, by a sample of the keys of either side.

    Equal samples are the same rows, or rows in the same order: then a row has a match, and some of the others.
    """
    if not samples[0] or not samples[1]:
        return None
    if samples[0] == samples[1] and len(samples[0]) > 1:
        return _share_of_others(samples[0]) + 1 / max(left.rows or 1, right.rows or 1)
    a, b = map(Counter, samples)
    equal = sum(n * b[value] for value, n in a.items() if value is not None)
    return equal / (len(samples[0]) * len(samples[1]))


def _share_of_others(keys: list[float | None]) -> float:
    """The share of pairs of two rows of one sample that have equal keys."""
    equal = sum(n * (n - 1) for value, n in Counter(keys).items() if value is not None)
    return equal / (len(keys) * (len(keys) - 1))


@dataclass(frozen=True)
class SampledRows:
    """Some rows of both sides: hashes of their keys, and positions on a distance band; empty if there are none."""

    keys: Samples
    positions: Samples


def sample_rows(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> SampledRows | None:
    """Read keys and positions of some rows of both sides in one query each; None if that is not possible."""
    band, keys, sides = join.band, _keys(join, ctx), []
    relations = (join.left, left), (join.right, right)
    for n, ((side, size), leaf) in enumerate(zip(relations, _leaves(band), strict=True)):
        items = [_key([k[n] for k in keys])] if keys else []
        items += [band.axis.real_position(leaf.text, leaf.type)] if leaf else []
        if not items:
            return None
        sides.append((side, ", ".join(items), size))
    samples = ctx.samples(tuple(sides), KEY_SAMPLE)
    if samples is None:
        return None

    def column(number: int) -> Samples:
        first, second = ([row[number] for row in rows] for rows in samples)
        return first, second

    with_positions = isinstance(band, DistanceBand)
    return SampledRows(column(0) if keys else ([], []), column(-1) if with_positions else ([], []))


def equal_key_pairs(join: Join, left: Statistics, right: Statistics, ctx: Context) -> float | None:
    """Estimate the pairs with equal keys of a join without a band; None if it has no keys, or they are not known."""
    keys = _keys(join, ctx)
    return pair_counter((join.left, join.right), keys, (left, right), ctx)((left, right)) if keys else None


def _keys(join: Join | BandJoin, ctx: Context) -> list[tuple[str, str]]:
    """The left and right operands of the equalities."""
    scope = condition_scope(join, ctx)
    return [found for equality in equalities(join.condition, scope) if (found := _of_one_type(equality, scope))]


def _leaves(band: Band) -> tuple[Leaf | None, Leaf | None]:
    return (band.left, band.right) if isinstance(band, DistanceBand) else (None, None)


def _key(keys: list[str]) -> str:
    known = " AND ".join(f"({key}) IS NOT NULL" for key in keys)
    return f"CASE WHEN {known} THEN xxhash64({', '.join(keys)}) END"


def _operands(conjunct: Scalar) -> tuple[exp.Expression, ...]:
    found = compared(conjunct)
    return found.operands if found and found.equal else ()


def _of_one_type(equality: Comparison, scope: ConditionScope) -> tuple[str, str] | None:
    """The operands of an equality, cast to one type; None if they have none."""
    try:
        types = [scope.type_of(operand) for operand in equality.operands]
    except Refused:
        return None
    operands = [sql(operand) for operand in equality.operands]
    if types[0] is not None and types[1] is not None and types[0].numeric and types[1].numeric and types[0] != types[1]:
        operands = [f"CAST({operand} AS DOUBLE)" for operand in operands]
    elif types[0] != types[1]:
        return None
    return operands[0], operands[1]
