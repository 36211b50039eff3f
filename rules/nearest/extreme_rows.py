"""Reads the condition of a semi or anti join as: equal keys, and one end of a value of the right side."""

from __future__ import annotations

from sqlglot import exp

from planner.band.comparisons import looks_like_band
from planner.conditions.compared import Comparison
from planner.errors import Refused
from planner.expr import Scalar, sql
from planner.logical import Join
from planner.logical.extreme_semi_join import Bound, Extreme, ExtremeSemiJoin
from planner.logical.joins import EqualKey
from rules.analysis.sail_groups import check_groups_on_sail
from rules.context import Context
from rules.nearest.pairs import Pairs, comparison_text, comparisons_of
from rules.query.correlation import check_not_correlated, leans_on_left
from rules.query.decorrelation import check_deterministic


def extreme_semi_join(join: Join, ctx: Context) -> ExtremeSemiJoin | None:
    """The join with the value that decides about its matches; None where no condition is a bound from one end.

    Raises ``Refused`` where other values of the right side count as well.
    """
    if join.kind not in ("semi", "anti") or join.using or join.natural or not any(map(looks_like_band, join.condition)):
        return None
    if leans_on_left(join.right):
        raise Refused("the right side is LATERAL and is computed for each left row")
    check_not_correlated(ctx)
    extreme = _Condition(join, ctx).read()
    if extreme is None:
        return None
    return ExtremeSemiJoin(join.left, join.right, join.kind, join.keyword, join.condition, extreme)


class _Condition:
    """The conditions of a join, by the sides that they are of."""

    def __init__(self, join: Join, ctx: Context):
        self.join = join
        self.pairs = Pairs(join, join.condition, ctx)
        self.keys: list[EqualKey] = []
        self.bounds: list[tuple[exp.Expression, Bound, Scalar]] = []
        self.filters: tuple[list[Scalar], list[Scalar]] = ([], [])

    def read(self) -> Extreme | None:
        for conjunct in self.join.condition:
            self.add(conjunct)
        if not self.bounds:
            return None
        value, first, _ = self.bounds[0]
        function = {"<": "min", ">": "max"}[first.sign[0]]
        canonical = self.pairs.scope.canonical
        for other, bound, conjunct in self.bounds[1:]:
            if canonical(other) != canonical(value):
                raise Refused(f"it compares {sql(value)} and {sql(other)}, which may be of two rows", conjunct.place)
            if bound.sign[0] != first.sign[0]:
                return None  # a band
        return Extreme(
            function,  # type: ignore[arg-type]
            self.pairs.safe(value),
            tuple(bound for _, bound, _ in self.bounds),
            tuple(self.keys),
            tuple(self.filters[0]),
            tuple(self.filters[1]),
        )

    def add(self, conjunct: Scalar) -> None:
        check_deterministic(conjunct)
        if (side := self.pairs.side(conjunct.tree)) != "both":
            self.filters[side == "right"].append(self.pairs.filter(conjunct) if side == "right" else conjunct)
            return
        parts = comparisons_of(conjunct)
        if not parts:
            raise Refused(f"{conjunct.shown} depends on both rows of a pair", conjunct.place)
        for part in parts:
            try:
                self.add_comparison(part, conjunct)
            except Refused as no:
                raise Refused(no.reason, no.place or conjunct.place) from no

    def add_comparison(self, part: Comparison, conjunct: Scalar) -> None:
        side = self.pairs.side(exp.Tuple(expressions=[part.left.copy(), part.right.copy()]))
        if side != "both":
            text = Scalar(comparison_text(part), (), conjunct.place)
            self.filters[side == "right"].append(self.pairs.filter(text) if side == "right" else text)
        elif key := self.pairs.key(part):
            self.keys.append(key)
        elif found := self.bound(part):
            value, bound = found
            self.pairs.check_types(part.left, part.right, conjunct)
            check_groups_on_sail(self.pairs.scope.type_of(value), sql(value), self.pairs.ctx)
            self.bounds.append((value, bound, conjunct))
        else:
            raise Refused(f"{conjunct.shown} depends on both rows of a pair", conjunct.place)

    def bound(self, part: Comparison) -> tuple[exp.Expression, Bound] | None:
        """A value of the right side, and what it is compared with; None where both sides are in one operand."""
        for turned in (part, part.turned):
            ends = self.pairs.side(turned.left), self.pairs.side(turned.right)
            if turned.by_order and ends == ("right", "left"):
                return turned.left, Bound(turned.sign, sql(turned.right))
        return None
