"""Reads bounds: what a comparison says about one expression of one side of a join.

Every comparison is brought into the form  Σ ±leaf + constant ≤ 0  over real numbers; a leaf is the largest piece of
an expression that is not a sum.  One leaf on one side of the join against a sum on the other is a *bound* of that
leaf, its *point*.

NULL may stand for no end: ``p.x < i.hi OR i.hi IS NULL``, ``p.x <= coalesce(i.hi, p.x)``, ``greatest(a.lo, b.lo) <
least(a.hi, b.hi)``.  Such a bound is read so that NULL on either side of the comparison passes, which is true of more
pairs than the condition.  A condition on the row of an end may as well: ``p.x < i.hi OR i.is_current``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlglot import exp

from dovetail.planner.band.comparisons import (
    EndlessComparison,
    comparisons,
    endless_comparison,
    from_extremes,
    without_abs,
    without_default,
)
from dovetail.planner.band.condition import End
from dovetail.planner.band.distances import Difference, differences
from dovetail.planner.band.inverses import Operands, bounds_on_argument, may_be_nan
from dovetail.planner.band.linear import (
    UNKNOWN,
    Amount,
    ConditionScope,
    Leaf,
    Side,
    Sum,
    constant,
    leaf_of,
    speculative,
)
from dovetail.planner.errors import Refused
from dovetail.planner.expr import HOLE, Scalar, sql, without_parentheses
from dovetail.planner.types.schema import INTEGRAL
from dovetail.planner.types.typed import infer_type

# What Spark casts a text to that is compared with a value of these types.
_TEXT_AS = {
    **dict.fromkeys(INTEGRAL, exp.DType.BIGINT),
    **dict.fromkeys(("float", "double", "decimal"), exp.DType.DOUBLE),
    "date": exp.DType.DATE,
    "timestamp": exp.DType.TIMESTAMPLTZ,
    "timestamp_ntz": exp.DType.TIMESTAMPNTZ,
}

_SIDES: tuple[Side, ...] = ("left", "right")


@dataclass(frozen=True)
class Bound:
    """A leaf of one side of the join, the ``point``, that is not smaller, or not greater, than an ``end``."""

    point: Leaf
    side: Side
    lower: bool
    end: End
    mixed: bool  # the user's text does arithmetic over both sides
    nan_passes: bool  # a difference stands on the larger side, where NaN is greater than anything
    nan_fails: bool  # a difference stands on the smaller side, and a constant on the other
    sum: str  # what is added up on the other side, where that is more than one leaf
    amount: Amount  # what the end adds to its leaves
    wraps: bool  # Spark adds integers, which wrap around without ANSI
    conjunct: Scalar
    null_point_passes: bool = False  # whatever the end is
    implied: bool = False  # by the conjunct, which says more

    @property
    def leaves(self) -> frozenset[str]:
        """The keys of the point and of all that the end adds up."""
        return frozenset((self.point.key, *(leaf.key for _, leaf in self.end.terms)))

    @property
    def wraps_harmlessly(self) -> bool:
        """Whether a sum that wraps only loses matches: outward (``hi + 5``); inward it would make new ones."""
        end = self.end
        if end.bare and not self.mixed:
            return True
        outward = end.constant <= 0 if self.lower else end.constant >= 0
        return not self.mixed and len(end.terms) == 1 and end.terms[0][0] == 1 and outward


class BoundReader:
    """Reads the bounds that a conjunct puts on leaves of either side; ``refusals``: why comparisons put none."""

    def __init__(self, conjunct: Scalar, scope: ConditionScope):
        self.conjunct, self.scope = conjunct, scope
        self.refusals: list[Refused] = []

    def by_times(self) -> BoundReader:
        """The reader of the same conjunct that reads times in the place of their counts."""
        return BoundReader(self.conjunct, replace(self.scope, by_times=True))

    def read(self) -> list[Bound]:
        """The bounds of all comparisons in the conjunct."""
        endless = endless_comparison(self.conjunct.tree)
        compared = without_parentheses(endless.comparison if endless else self.conjunct.tree)
        guarded = isinstance(compared.this, exp.Abs) or isinstance(compared.expression, exp.Abs)
        found: list[Bound] = []
        for operands in comparisons(compared):
            try:
                found += self._read_comparison(operands, endless, guarded=guarded)
            except Refused as no:
                self.refusals.append(Refused(f"{self.conjunct.shown}: {no.reason}", no.place or self.conjunct.place))
        return found

    def _read_comparison(
        self, operands: tuple[exp.Expression, exp.Expression], endless: EndlessComparison | None, *, guarded: bool
    ) -> list[Bound]:
        scope = self.scope
        if not endless and "both" in map(scope.side, operands):
            if implied := from_extremes(*operands):
                return self._read_implied(implied)
            if parts := bounds_on_argument(*operands, scope, sums=False):
                return self._read_argument(parts, operands, guarded=guarded)
        small, large, default = without_default(*operands)
        open_end = endless or default
        is_distance = not open_end and scope.side(small) == "both" != scope.side(large)
        if is_distance and (apart := differences(small, large, scope)):
            return self._read_differences(apart)
        try:
            found = self._read_bounds(small, large, guarded=guarded)
        except Refused:
            if not open_end and (parts := bounds_on_argument(small, large, scope, sums=True)):
                return self._read_argument(parts, operands, guarded=guarded)
            raise
        if open_end:
            return _endless(found, open_end, scope)
        fails = scope.side(small) == "both" and constant(large) is not None
        return [replace(bound, nan_fails=fails) for bound in found]

    def _read_argument(self, parts: list[Operands], compared: Operands, *, guarded: bool) -> list[Bound]:
        """The bounds on an argument of what is compared with a constant.

        Where the argument is NaN, so is what is computed from it, and passes as the greatest value on the larger side.
        """
        is_larger, tree = self.scope.side(compared[1]) == "both", without_parentheses(self.conjunct.tree)
        is_between = isinstance(tree, exp.Between) and tree.this is compared[1]
        guarded = guarded or (is_between and constant(tree.args["high"]) is not None)
        passes = is_larger and not guarded and may_be_nan(compared[1], self.scope)
        mixed, fails = not self.scope.by_times, constant(compared[1]) is not None
        return [
            replace(bound, mixed=mixed, nan_passes=passes, nan_fails=fails, implied=True)
            for operands in parts
            for bound in self._read_bounds(*operands, guarded=True)
        ]

    def _read_differences(self, apart: list[Difference]) -> list[Bound]:
        """The bounds on the differences of a distance that can be read; raises ``Refused`` if none can."""
        found: list[Bound] = []
        reason = Refused("none of its terms is a difference of both sides")
        for difference, most in apart:
            try:
                for small, large in without_abs(exp.Abs(this=difference.copy()), most):
                    bounds = self._read_bounds(small, large, guarded=True)
                    found += (replace(bound, implied=True) for bound in bounds)
            except Refused as no:
                reason = no
        if not found:
            raise reason
        return found

    def _read_implied(self, implied: tuple[EndlessComparison, ...]) -> list[Bound]:
        """The bounds of comparisons that follow from a conjunct, each of which NULL passes.

        They follow if the arguments of a function are compared as they are: Spark casts them to one type first, and a
        BIGINT may be rounded, or compared as a text.
        """
        found = []
        for part in ("this", "expression"):
            types = {infer_type(one.comparison.args[part], self.scope.type_of) for one in implied}
            if len(types) > 1 and not all(type_ and type_.integral for type_ in types):
                raise Refused("it compares values of different types by greatest() or least(); cast them to one type")
        for one in implied:
            small, large = one.comparison.this, one.comparison.expression
            if bounds := self._read_bounds(small, large, guarded=False):
                found += _endless(bounds, one, self.scope)
        return found

    def _read_bounds(self, small: exp.Expression, large: exp.Expression, *, guarded: bool) -> list[Bound]:
        """The bounds that ``small ≤ large`` puts on a leaf of either side; none when it is not across the join."""
        scope = self.scope
        if any(c.name.startswith(HOLE) for tree in (small, large) for c in tree.find_all(exp.Column)):
            raise Refused("a subquery stands in it")
        small, large = _with_one_type(small, large, scope)
        sum_ = _sum_across(small, large, scope)
        if sum_ is None or (scope.by_times and not sum_.counts_times):
            return []
        mixed = not scope.by_times and "both" in (scope.side(small), scope.side(large))
        wraps = not scope.ansi and any(_adds_integers(operand, scope) for operand in (small, large))
        nan_passes = scope.side(large) == "both" and not guarded and may_be_nan(large, scope)
        found = []
        reason: Refused | None = None
        for side in _SIDES:
            try:
                solved = _term_as_point(sum_, side)
                if solved is None and not scope.by_times:
                    solved = _operand_as_point(small, large, side, scope)
            except Refused as no:
                reason = no
                continue
            if solved is None or solved.point.type.name == "micros" or any(abs(c) != 1 for c, _ in solved.rest):
                continue
            # coefficient·point + Σ + amount ≤ 0
            amount = Amount().plus(solved.amount, -solved.coefficient)
            terms = tuple((-solved.coefficient * c, leaf) for c, leaf in solved.rest)
            end, lower = End(terms, amount.number + amount.micros), solved.coefficient < 0
            added = " and ".join(leaf.text for _, leaf in terms) if len(terms) > 1 else ""
            bound = Bound(solved.point, side, lower, end, mixed, nan_passes, False, added, amount, wraps, self.conjunct)
            found.append(replace(bound, implied=scope.by_times))
        if not found:
            raise reason or Refused("it does not bound one expression of either side")
        return found


def _sum_across(small: exp.Expression, large: exp.Expression, scope: ConditionScope) -> Sum | None:
    """The sum ``small - large``; None unless it has terms of both sides.  Raises ``Refused`` for a term of both."""
    sum_ = Sum(scope)
    for operand, sign in ((small, 1), (large, -1)):
        sum_.add(operand, sign, whole=_negates_reals(operand, scope))
    sum_.finish()
    sides = {side for side, *_ in sum_.terms.values()}
    if not {"left", "right"} <= sides and "both" not in sides:
        return None
    for side, _, leaf in sum_.terms.values():
        if side == "both":
            raise Refused(f"{leaf.text} mixes both sides of the join")
        if leaf.type == UNKNOWN:
            raise Refused(f"the type of {leaf.text} is not known")
    return sum_


class _Solved(NamedTuple):
    """A comparison as ``coefficient·point + Σ rest + amount ≤ 0``."""

    coefficient: int
    point: Leaf
    rest: list[tuple[int, Leaf]]
    amount: Amount


def _term_as_point(sum_: Sum, side: Side) -> _Solved | None:
    """Read the only term of a side as the point; None if it has more terms, or several times the same."""
    points = [(c, leaf) for owner, c, leaf in sum_.terms.values() if owner == side]
    if len(points) != 1 or abs(points[0][0]) != 1:
        return None
    rest = [(c, leaf) for owner, c, leaf in sum_.terms.values() if owner != side]
    return _Solved(*points[0], rest, sum_.amount)


def _negates_reals(operand: exp.Expression, scope: ConditionScope) -> bool:
    """Whether an operand of one side subtracts a FLOAT or DOUBLE: negated, NaN is still greater than anything."""
    if not operand.find(exp.Neg, exp.Sub, exp.Func) or scope.side(operand) not in ("left", "right"):
        return False
    sum_ = Sum(scope)
    sum_.add(operand, 1)
    return any(count < 0 and leaf.type.approximate for _, count, leaf in sum_.terms.values())


def _with_one_type(
    small: exp.Expression, large: exp.Expression, scope: ConditionScope
) -> tuple[exp.Expression, exp.Expression]:
    """Cast a text that is compared with a number or a time, as Spark does under ANSI."""
    if not scope.ansi or {scope.side(small), scope.side(large)} != {"left", "right"}:
        return small, large
    types = infer_type(small, scope.type_of), infer_type(large, scope.type_of)
    wanted = tuple(
        _TEXT_AS.get(other.name) if own and own.text == "string" and other else None
        for own, other in (types, types[::-1])
    )
    return tuple(exp.cast(one.copy(), to) if to else one for one, to in zip((small, large), wanted, strict=True))  # type: ignore[return-value]


def _endless(bounds: list[Bound], read: EndlessComparison, scope: ConditionScope) -> list[Bound]:
    """The bounds that NULL and other conditions pass, where these are about the one leaf of the end, or its side."""
    reason = Refused("it is an OR, so rows may match outside the band")
    found = []
    for bound in bounds:
        try:
            found.append(_endless_bound(bound, read, scope))
        except Refused as no:
            reason = no
    if not found or len(list(comparisons(read.comparison))) != 1:
        raise reason
    return found


def _endless_bound(bound: Bound, read: EndlessComparison, scope: ConditionScope) -> Bound:
    reason = Refused("it is an OR, so rows may match outside the band")
    if len(bound.end.terms) != 1 or bound.end.terms[0][0] != 1:
        raise reason
    (_, leaf), point = bound.end.terms[0], bound.point
    tested = {scope.canonical(one): one for one in read.tested}
    passes = tested.pop(point.key, None) is not None
    tested.pop(leaf.key, None)
    others = [*read.others, *(exp.Is(this=one.copy(), expression=exp.Null()) for one in tested.values())]
    if any(scope.side(one) in (bound.side, "both") for one in others) or (others and leaf.computed):
        raise reason
    types = point.type, leaf.type
    if point.type.name != leaf.type.name and not (all(t.numeric for t in types) or all(t.temporal for t in types)):
        raise Refused(f"{point.text} is {point.type} and {leaf.text} is {leaf.type}, beside a test for NULL")
    if others:  # the end of rows that they hold for is NULL
        open_: exp.Expression = exp.or_(*(speculative(one, scope) for one in others))  # type: ignore[assignment]
        text = f"CASE WHEN {sql(open_)} THEN NULL ELSE {leaf.text} END"
        leaf = replace(leaf, text=text, key=f"{leaf.key} unless {scope.canonical(open_)}")
    return replace(bound, end=replace(bound.end, terms=((1, leaf),), endless=True), null_point_passes=passes)


def _adds_integers(operand: exp.Expression, scope: ConditionScope) -> bool:
    """Whether an operand is a sum of integers, other than the few seconds there are since 1970."""
    sum_ = Sum(scope)
    sum_.add(operand, 1)
    integers = [(count, leaf) for _, count, leaf in sum_.terms.values() if leaf.type.integral]
    added = sum(abs(count) for count, _ in integers) + bool(sum_.amount.number)
    return added > 1 and not all(leaf.counts_seconds for _, leaf in integers)


def _operand_as_point(
    small: exp.Expression, large: exp.Expression, side: Side, scope: ConditionScope
) -> _Solved | None:
    """Read the operand over ``side`` as one leaf, the point, although it is a sum: Spark computes that sum.

    Returns None if the operands are not over one side each.
    """
    for point, rest, coefficient in ((small, large, 1), (large, small, -1)):
        if scope.side(point) == side and {side, scope.side(rest)} == {"left", "right"}:
            sum_ = Sum(scope)
            sum_.add(rest, -coefficient)
            leaf = leaf_of(without_parentheses(point), scope)
            if leaf.type == UNKNOWN:
                raise Refused(f"the type of {leaf.text} is not known")
            return _Solved(coefficient, leaf, [(c, term) for _, c, term in sum_.terms.values()], sum_.amount)
    return None
