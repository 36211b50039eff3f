"""Recognizes EXISTS, semi and anti joins that one row of each key decides: ``l.user = o.user AND l.ts <= o.ts``."""

from __future__ import annotations

from contextlib import suppress

from sqlglot import exp

from dovetail.planner.band.comparisons import is_or_of_comparisons, looks_like_band
from dovetail.planner.conditions.compared import Comparison
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql
from dovetail.planner.logical import Filter, Join, Logical
from dovetail.planner.logical.extreme_semi_join import Bound, Extreme, ExtremeSemiJoin
from dovetail.planner.logical.joins import EqualKey
from dovetail.planner.logical.relations import references_left
from dovetail.rules.analysis.float_groups import check_groups
from dovetail.rules.context import Context
from dovetail.rules.nearest.pairs import Pairs
from dovetail.rules.query.decorrelation import bounds
from dovetail.rules.query.exists_as_join import exists_as_join
from dovetail.rules.query.exists_tests import simple_test
from dovetail.rules.query.query_block import move_conjuncts, read_block
from dovetail.rules.rule import rule


@rule(Join, Filter, needs=("semi_join", "subquery"))
def extreme_exists(node: Join | Filter, ctx: Context) -> Logical | None:
    """Recognize a semi or anti join whose condition the least or the greatest value of each key decides.

    Some row has a value up to a bound if and only if the least value is up to it.  The same holds for EXISTS and IN in
    WHERE, which are semi joins.
    """
    if isinstance(node, Join):
        try:
            return extreme_semi_join(node, ctx)
        except Refused as no:
            if bounds(node.condition) < 2:  # otherwise it may be a band
                ctx.decline(f"not only the least or the greatest value: {no.reason}", no.place, no.code)
            return None
    return move_conjuncts(node, lambda test, tree: _joined(test, tree, ctx) if test.plans else None)


def _joined(conjunct: Scalar, tree: Logical, ctx: Context) -> ExtremeSemiJoin | None:
    """Join the relations of a query with those of the subquery in a conjunct; None if the rule does not apply."""
    test = simple_test(conjunct)
    block = read_block(test.query) if test else None
    if test is None or block is None:
        return None
    across: tuple[Scalar, ...] = ()
    if candidates := tuple(c for c in block.condition if looks_like_band(c) or is_or_of_comparisons(c)):
        with suppress(Refused):
            scope = ctx.scope(block.tree, outer=ctx.scope(tree))
            across = tuple(c for c in candidates if len(scope.bind(c).levels) > 1)
    if not across:
        return None
    if not any(map(looks_like_band, across)):
        reason = f"{across[0].shown} is an OR, so no single value of the subquery decides"
        return ctx.decline(f"{test} stays a subquery: {reason}", across[0].place, "or_condition")
    try:
        return extreme_semi_join(exists_as_join(test, block, tree, ctx), ctx)
    except Refused as no:
        if bounds(across) < 2:  # otherwise exists_to_join has a reason
            ctx.decline(f"{test} stays a subquery: {no.reason}", no.place or across[0].place, no.code)
        return None


def extreme_semi_join(join: Join, ctx: Context) -> ExtremeSemiJoin | None:
    """The join with the value that decides about its matches; None where no condition is a bound from one end.

    Raises ``Refused`` where other values of the right side count as well.
    """
    if join.kind not in ("semi", "anti") or join.using or join.natural or not any(map(looks_like_band, join.condition)):
        return None
    if references_left(join.right):
        raise Refused("the right side is LATERAL and is computed for each left row")
    ctx.check_not_correlated()
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
