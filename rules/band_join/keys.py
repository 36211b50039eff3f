"""Equi-keys of a band join: whether they exist, match at most one row, and how many pairs they leave."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from sqlglot import exp

from dovetail.planner.band.condition import Band, DistanceBand
from dovetail.planner.band.linear import ConditionScope, Leaf, Side
from dovetail.planner.catalog.cost import KEY_SAMPLE
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.conditions.compared import Comparison, compared
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql
from dovetail.planner.logical import BandJoin, Join, Logical
from dovetail.rules.analysis.unique import unique_keys
from dovetail.rules.context import Context
from dovetail.rules.query.condition_scope import condition_scope, equalities
from dovetail.rules.query.from_items import bare
from dovetail.rules.query.rows_inside import rows_inside


def has_keys(join: BandJoin) -> bool:
    """Whether the condition contains an equality, judged by its syntax."""
    return any("=" in c.text and _operands(c) for c in join.condition)


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
                equal[found.relation >= len(sides[0])].add(ctx.names.fold(found.column.name))
    except Refused:
        return False
    relations = zip((join.left, join.right), sides, equal, strict=True)
    return any(len(s) == 1 and any(key <= names for key in unique_keys(r, ctx)) for r, s, names in relations)


def estimate_key_pairs(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> float | None:
    """Estimate the pairs with equal keys from the first rows of each side; None if these are not cheap to read."""
    if left.rows is None or right.rows is None or not (keys := _keys(join, ctx)):
        return None
    if not (left.plain and right.plain):
        return key_pairs((join.left, join.right), keys, left, right, ctx)
    rows = sample_rows(join, ctx)
    return _extrapolated(rows.keys, left.rows, right.rows) if rows else None


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
        samples = ctx.samples(((other, _key(keys)),), KEY_SAMPLE)
        rows = [row[0] for row in samples[0]] if samples else []
        if len(rows) > 1:
            equal = sum(n * (n - 1) for value, n in Counter(rows).items() if value is not None)
            return equal / (len(rows) * (len(rows) - 1)) * size.rows, side
    return None


def key_pairs(
    sides: tuple[Logical, Logical], keys: list[tuple[str, str]], left: Statistics, right: Statistics, ctx: Context
) -> float | None:
    """The same for two relations and the left and right operands of their equalities.

    The keys of a subquery that adds windows to rows are those of the rows inside, which are cheap to read.
    """
    if left.rows is None or right.rows is None:
        return None
    read = []
    for number, (side, size) in enumerate(zip(sides, (left, right), strict=True)):
        found = side, [key[number] for key in keys]
        readable = found if size.plain else _inside(*found, ctx)
        if readable is None:
            return None
        read.append((readable[0], _key(readable[1])))
    samples = ctx.samples(tuple(read), KEY_SAMPLE)
    if samples is None:
        return None
    first, second = ([row[0] for row in rows] for rows in samples)
    return _extrapolated((first, second), left.rows, right.rows)


def _inside(side: Logical, keys: list[str], ctx: Context) -> tuple[Logical, list[str]] | None:
    """The rows inside a subquery, and expressions over it as those over these; None if they are not cheap to read."""
    rows = rows_inside(side, ctx)
    if rows is None or not ctx.statistics_of(rows.table)[0].plain:
        return None
    with suppress(Refused):
        return rows.table, [rows.expression(key) for key in keys]
    return None


def _extrapolated(
    samples: tuple[list[float | None], list[float | None]], left_rows: int, right_rows: int
) -> float | None:
    """The pairs with equal keys of so many rows, by a sample of the keys of either side."""
    if not samples[0] or not samples[1]:
        return None
    a, b = map(Counter, samples)
    equal = sum(n * b[value] for value, n in a.items() if value is not None)
    return equal / (len(samples[0]) * len(samples[1])) * left_rows * right_rows


@dataclass(frozen=True)
class FirstRows:
    """The first rows of both sides: hashes of their keys, and positions on a distance band; empty if there are none."""

    keys: tuple[list[float | None], list[float | None]]
    positions: tuple[list[float | None], list[float | None]]


def sample_rows(join: BandJoin, ctx: Context) -> FirstRows | None:
    """Read keys and positions of the first rows of both sides in one query each; None if that is not possible."""
    band, keys, sides = join.band, _keys(join, ctx), []
    for n, (side, leaf) in enumerate(zip((join.left, join.right), _leaves(band), strict=True)):
        items = [_key([k[n] for k in keys])] if keys else []
        items += [band.axis.real_position(leaf.text, leaf.type)] if leaf else []
        if not items:
            return None
        sides.append((side, ", ".join(items)))
    samples = ctx.samples(tuple(sides), KEY_SAMPLE)
    if samples is None:
        return None

    def column(number: int) -> tuple[list[float | None], list[float | None]]:
        first, second = ([row[number] for row in rows] for rows in samples)
        return first, second

    with_positions = isinstance(band, DistanceBand)
    return FirstRows(column(0) if keys else ([], []), column(-1) if with_positions else ([], []))


def equal_key_pairs(join: Join, left: Statistics, right: Statistics, ctx: Context) -> float | None:
    """Estimate the pairs with equal keys of a join without a band; None if it has no keys, or they are not known."""
    keys = _keys(join, ctx)
    return key_pairs((join.left, join.right), keys, left, right, ctx) if keys else None


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
