"""How often the keys of a join meet: whether a hash join on them alone would do."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from sqlglot import exp

from planner.band.condition import Band, DistanceBand
from planner.band.linear import Leaf, NotABand, Vocabulary
from planner.catalog.stats import Statistics
from planner.conditions.compared import Comparison, compared
from planner.errors import Unsupported
from planner.expr import Scalar, column_ref, sql
from planner.logical import BandJoin
from planner.sql.names import Unresolved
from rules.analysis.unique import unique_keys
from rules.context import Context
from rules.query.vocabulary import vocabulary


def has_keys(join: BandJoin) -> bool:
    """Whether an equality stands in the condition, on the face of it."""
    return any("=" in c.text and _equality(c) for c in join.condition)


def across(join: BandJoin, ctx: Context) -> bool:
    """Whether an equality of the condition is of one side with the other, so that Spark can join by it."""
    words = vocabulary(join, ctx)
    for found in map(compared, join.condition):
        with suppress(NotABand):
            if found and found.sign in ("=", "<=>") and {words.side(e) for e in found.operands} == {"left", "right"}:
                return True
    return False


def one_partner(join: BandJoin, ctx: Context) -> bool:
    """Whether the equalities of the condition hold a unique key of a side, as far as columns tell."""
    if not has_keys(join):
        return False
    sides = [ctx.names.sources(join.left), ctx.names.sources(join.right)]
    equal: list[set[str]] = [set(), set()]
    try:
        for end in (e for c in join.condition if (equality := _equality(c)) for e in equality.operands):
            if isinstance(end, exp.Column):
                index, column = ctx.names.resolve(column_ref(end), (*sides[0], *sides[1]))
                equal[index >= len(sides[0])].add(ctx.names.fold(column.name))
    except (Unsupported, Unresolved):
        return False
    relations = zip((join.left, join.right), sides, equal, strict=True)
    return any(len(s) == 1 and any(key <= names for key in unique_keys(r, ctx)) for r, s, names in relations)


def pairs_of_keys(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> float | None:
    """About how many pairs agree in the equalities of the condition; None when that cannot be told cheaply.

    From the keys of the first rows of either side, where those come at once.
    """
    if left.rows is None or right.rows is None or not (left.plain and right.plain):
        return None
    rows = sample_rows(join, ctx) if _keys(join, ctx) else None
    if rows is None or not rows.keys[0] or not rows.keys[1]:
        return None
    a, b = (Counter(keys) for keys in rows.keys)
    meet = sum(n * b[value] for value, n in a.items() if value is not None)
    return meet / (len(rows.keys[0]) * len(rows.keys[1])) * left.rows * right.rows


@dataclass(frozen=True)
class FirstRows:
    """The first rows of both sides: their keys as one number each, and their positions on a band of constant width.

    Either is empty where there is none.
    """

    keys: tuple[list[float | None], list[float | None]]
    positions: tuple[list[float | None], list[float | None]]


def sample_rows(join: BandJoin, ctx: Context) -> FirstRows | None:
    """Read the first rows of both sides, all that is asked of them at once; None when that cannot be done."""
    band, keys, sides = join.band, _keys(join, ctx), []
    for n, (side, leaf) in enumerate(zip((join.left, join.right), _leaves(band), strict=True)):
        items = [_key([k[n] for k in keys])] if keys else []
        items += [band.axis.real_position(leaf.text, leaf.type)] if leaf else []
        if not items:
            return None
        sides.append((side, ", ".join(items)))
    samples = ctx.samples(tuple(sides), ctx.thresholds.key_sample)
    if samples is None:
        return None

    def column(number: int) -> tuple[list[float | None], list[float | None]]:
        first, second = ([row[number] for row in rows] for rows in samples)
        return first, second

    with_positions = isinstance(band, DistanceBand)
    return FirstRows(column(0) if keys else ([], []), column(-1) if with_positions else ([], []))


def _keys(join: BandJoin, ctx: Context) -> list[tuple[str, str]]:
    """What the equalities of the condition compare, left and right."""
    words = vocabulary(join, ctx)
    return [found for c in join.condition if (found := _sides(_equality(c), words))]


def _leaves(band: Band) -> tuple[Leaf | None, Leaf | None]:
    return (band.left, band.right) if isinstance(band, DistanceBand) else (None, None)


def _key(keys: list[str]) -> str:
    known = " AND ".join(f"({key}) IS NOT NULL" for key in keys)
    return f"CASE WHEN {known} THEN xxhash64({', '.join(keys)}) END"


def _equality(conjunct: Scalar) -> Comparison | None:
    found = compared(conjunct)
    return found if found and found.equal else None


def _sides(equality: Comparison | None, words: Vocabulary) -> tuple[str, str] | None:
    """What an equality compares, left and right, brought to one type; None unless it is across the join."""
    if equality is None:
        return None
    try:
        ends = {words.side(end): end for end in equality.operands}
        if set(ends) != {"left", "right"}:
            return None
        types = [words.type_of(ends[side]) for side in ("left", "right")]
    except NotABand:
        return None
    said = [sql(ends[side]) for side in ("left", "right")]
    if types[0] is not None and types[1] is not None and types[0].numeric and types[1].numeric and types[0] != types[1]:
        said = [f"CAST({end} AS DOUBLE)" for end in said]
    elif types[0] != types[1]:
        return None
    return said[0], said[1]
