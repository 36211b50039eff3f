"""How far apart two expressions of a matching pair lie: ``c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MINUTES``.

A band needs two ends; here each end counts by itself, since one is enough to say which rows can match no more.
Equality is an end in both directions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from planner.band.axis import DAY, Axis, axis_of
from planner.band.condition import comparisons
from planner.band.linear import UNKNOWN, Leaf, NotABand, Side, Sum, Vocabulary
from planner.errors import Unsupported
from planner.expr import Scalar

_ROOM = 26 * Fraction(DAY, 24)  # by which calendar and clock may differ, as in bands


@dataclass(frozen=True)
class Bound:
    """Of every pair that matches, ``large - small >= least``, in whole units of the axis."""

    small: Leaf
    small_side: Side
    large: Leaf
    large_side: Side
    least: Fraction
    axis: Axis
    conjunct: Scalar


def read_bounds(conjuncts: Iterable[Scalar], words: Vocabulary) -> tuple[Bound, ...]:
    """The bounds that a condition puts on pairs, in the order in which they are written.

    Only whole positions (integers, dates, times); what cannot be read is left out, which is always sound.
    """
    return tuple(b for c in conjuncts if not c.plans for b in _bounds_of(c, words))


def equalities(conjunct: Scalar) -> tuple[exp.Expression, exp.Expression] | None:
    """The operands of ``x = y``; None for anything else, ``<=>`` included."""
    try:
        tree = conjunct.tree
    except Unsupported:
        return None
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return (tree.this, tree.expression) if isinstance(tree, exp.EQ) else None


def _bounds_of(conjunct: Scalar, words: Vocabulary) -> Iterator[Bound]:
    try:
        pairs = list(comparisons(conjunct.tree))
    except Unsupported:
        return
    if equal := equalities(conjunct):
        pairs = [equal, equal[::-1]]
    for small, large in pairs:
        try:
            found = _bound(small, large, conjunct, words)
        except NotABand:
            continue
        if found:
            yield found


def _bound(small: exp.Expression, large: exp.Expression, conjunct: Scalar, words: Vocabulary) -> Bound | None:
    total = Sum(words)
    total.add(small, 1)
    total.add(large, -1)
    total.finish()
    lesser = [(side, leaf) for side, count, leaf in total.terms.values() if count == 1]
    greater = [(side, leaf) for side, count, leaf in total.terms.values() if count == -1]
    if len(total.terms) != 2 or len(lesser) != 1 or len(greater) != 1:
        return None
    (small_side, small_leaf), (large_side, large_leaf) = lesser[0], greater[0]
    if {small_side, large_side} != {"left", "right"} or UNKNOWN in (small_leaf.type, large_leaf.type):
        return None
    amount, types = total.amount, [small_leaf.type, large_leaf.type]
    mixed = "both" in (words.side(small), words.side(large))
    adds = bool(amount.number or amount.reach or amount.lengths)
    axis = axis_of(types, arithmetic=mixed or adds, ansi=words.ansi, clock=amount.clock)
    if isinstance(axis, str) or not axis.exact:
        return None
    if axis.name in ("number", "date"):
        if (amount.number or mixed) and not words.ansi:
            return None  # sums may wrap around
        least = amount.number + (amount.micros - amount.spread) / DAY
        if axis.name == "number" and amount.reach:
            return None
    elif amount.number:
        return None
    else:
        least = amount.micros - amount.spread
    names = {type_.name for type_ in types}
    if axis.name == "timestamp" and not words.fixed_zone:
        calendar = mixed or amount.lengths or amount.reach >= DAY
        if calendar or "date" in names or (amount.reach and "timestamp_ntz" in names):
            least -= _ROOM
    return Bound(small_leaf, small_side, large_leaf, large_side, least, axis, conjunct)  # type: ignore[arg-type]
