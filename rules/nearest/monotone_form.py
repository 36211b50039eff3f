"""Monotone forms: what grows, or falls, with a time, so that of the rows on one side of it the nearest has the best.

unix_timestamp(t.ts) - unix_timestamp(q.ts) <= 300        falls with q.ts: if it holds of a quote, then of a later one
datediff(t.ts, q.ts) / 7 <= 1
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dovetail.planner.band.counted_times import counted_time
from dovetail.planner.band.linear import ConditionScope, constant
from dovetail.planner.errors import Refused
from dovetail.planner.expr import sql, without_parentheses
from dovetail.planner.logical.nearest_join import NEAREST_OTHER, NEAREST_TIME
from dovetail.planner.types.schema import sql_type
from dovetail.planner.types.typed import infer_type


class MonotoneForm:
    """Reads expressions over the left side and the time of a right row, which ``is_time`` knows.

    ``wraps``: sums of integers may wrap around.
    """

    def __init__(self, scope: ConditionScope, wraps: bool, is_time: Callable[[exp.Expression], bool]):
        self.scope, self.wraps, self.is_time = scope, wraps, is_time

    def slope(self, tree: exp.Expression) -> int | None:
        """1 where an expression never falls as the time grows, -1 where it never grows, 0 without the time, else None.

        Days are counted in the zone of the session, and may go back by one where its clocks do.
        """
        if self.is_time(tree):
            return 1
        if self.scope.side(tree) in ("left", None):
            return 0
        if (counted := counted_time(tree, self.scope.type_of, ansi=self.scope.ansi)) is not None:
            return self.slope(counted.time) if self._keeps_order(counted.is_date) else None
        match tree:
            case exp.Paren():
                return self.slope(tree.this)
            case exp.Sub() if self._is_exact(tree):
                return _sum(self.slope(tree.this), _turned(self.slope(tree.expression)))
            case exp.DateDiff() if not tree.args.get("unit") and self._keeps_order(is_date=True):
                return _sum(self.slope(tree.this), _turned(self.slope(tree.expression)))
            case exp.TimestampDiff() if self._keeps_order(is_date=True):
                return _sum(self.slope(tree.this), _turned(self.slope(tree.expression)))
            case exp.Div() | exp.IntDiv() if factor := constant(tree.expression):
                return self.slope(tree.this) if factor > 0 else _turned(self.slope(tree.this))
            case exp.Floor() | exp.Ceil() | exp.Round():
                return self.slope(tree.this)
            case exp.Cast() if not self.wraps and sql_type(tree.to.sql("spark")).numeric:
                return self.slope(tree.this)
        return None

    def parts(self, tree: exp.Expression) -> tuple[exp.Expression | None, str]:
        """The one expression over the left side in a form, and the form with names in the place of both.

        Raises ``Refused`` where there are several.
        """
        others: dict[str, exp.Expression] = {}

        def named(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Expression) or isinstance(node, exp.DataType | exp.Var):
                return node
            if self.is_time(node):
                return exp.column(NEAREST_TIME)
            if self.scope.side(node) == "left":
                others[self.scope.canonical(node)] = node
                return exp.column(NEAREST_OTHER)
            return node

        form = tree.copy().transform(named)
        if len(others) > 1:
            raise Refused(f"{sql(tree)} compares the time with more than one expression of the left side")
        return next(iter(others.values()), None), sql(without_parentheses(form))

    def _keeps_order(self, is_date: bool) -> bool:
        return not is_date or self.scope.has_fixed_offset_zone

    def _is_exact(self, tree: exp.Sub) -> bool:
        """Whether a difference of numbers is exact: infinity less itself is NaN, and integers may wrap around."""
        counts = all(
            counted_time(side, self.scope.type_of, ansi=self.scope.ansi) for side in (tree.this, tree.expression)
        )
        type_ = infer_type(tree, self.scope.type_of)
        return counts or (type_ is not None and type_.exact_numeric and not (type_.integral and self.wraps))


def _turned(slope: int | None) -> int | None:
    return None if slope is None else -slope


def _sum(one: int | None, other: int | None) -> int | None:
    """The slope of a sum: None where its parts go different ways."""
    if one is None or other is None or one * other < 0:
        return None
    return one or other
