"""How often the keys of a join meet: whether a hash join on them alone would do."""

from collections import Counter

from sqlglot import exp

from planner.errors import NotCarried
from planner.expr import sql
from planner.linear import NotABand, Vocabulary
from planner.logical import BandJoin, Logical
from planner.stats import Statistics
from rules.rule import Context
from rules.vocabulary import vocabulary


def has_keys(join: BandJoin) -> bool:
    """Whether an equality stands in the condition, on the face of it."""
    return any("=" in c.text and isinstance(_equality(c.tree), exp.Expression) for c in join.condition if not c.plans)


def pairs_of_keys(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> float | None:
    """About how many pairs agree in the equalities of the condition; None when that cannot be told cheaply.

    From the first rows of either side, as Spark finds them: a few thousand numbers come back.
    """
    if left.rows is None or right.rows is None or not (left.plain and right.plain):
        return None
    words = vocabulary(join, ctx)
    keys = [found for c in join.condition if not c.plans and (found := _sides(_equality(c.tree), words))]
    if not keys:
        return None
    samples = [_sample(relation, [k[n] for k in keys], ctx) for n, relation in enumerate((join.left, join.right))]
    if not samples[0] or not samples[1]:
        return None
    a, b = (Counter(sample) for sample in samples)
    meet = sum(n * b[value] for value, n in a.items() if value is not None)
    return meet / (len(samples[0]) * len(samples[1])) * left.rows * right.rows


def _equality(tree: exp.Expression) -> exp.Expression | None:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree if isinstance(tree, exp.EQ | exp.NullSafeEQ) else None


def _sides(equality: exp.Expression | None, words: Vocabulary) -> tuple[str, str] | None:
    """What an equality compares, left and right, brought to one type; None unless it is across the join."""
    if equality is None:
        return None
    try:
        ends = {words.side(end): end for end in (equality.this, equality.expression)}
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


def _sample(relation: Logical, keys: list[str], ctx: Context) -> list[float | None] | None:
    known = " AND ".join(f"({key}) IS NOT NULL" for key in keys)
    one = f"CASE WHEN {known} THEN xxhash64({', '.join(keys)}) END"
    try:
        return ctx.sample(relation, one, ctx.thresholds.key_sample)
    except NotCarried:
        return None
