"""Reads semi and anti joins on equal keys and one bound: the least or greatest value of each key decides."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.conditions.compared import Comparison
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql
from dovetail.planner.logical import Join
from dovetail.planner.logical.extreme_semi_join import Bound, Extreme, ExtremeSemiJoin
from dovetail.planner.logical.joins import EqualKey
from dovetail.rules.analysis.float_groups import check_groups
from dovetail.rules.context import Context
from dovetail.rules.nearest.pairs import Pairs
from dovetail.rules.query.correlation import check_not_correlated, references_left


def extreme_semi_join(join: Join, ctx: Context) -> ExtremeSemiJoin | None:
    """The join with the value that decides about its matches; None where no condition is a bound from one end.

    Raises ``Refused`` where other values of the right side count as well.
    """
    if join.kind not in ("semi", "anti") or join.using or join.natural or not any(map(looks_like_band, join.condition)):
        return None
    if references_left(join.right):
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
        for side, text, part in self.pairs.parts(conjunct):
            if part is None:
                self.filters[side == "right"].append(self.pairs.filter(text) if side == "right" else text)
                continue
            try:
                self.add_comparison(part, conjunct)
            except Refused as no:
                raise Refused(no.reason, no.place or conjunct.place) from no

    def add_comparison(self, part: Comparison, conjunct: Scalar) -> None:
        if key := self.pairs.key(part):
            self.keys.append(key)
        elif part.by_order and (one := self.pairs.scope.compare_sides(part)):
            self.pairs.check_types(part.left, part.right, conjunct)
            check_groups(self.pairs.scope.type_of(one.right), sql(one.right), self.pairs.ctx)
            self.bounds.append((one.right, Bound(one.turned.sign, sql(one.left)), conjunct))
        else:
            raise Refused(f"{conjunct.shown} depends on both rows of a pair", conjunct.place)
