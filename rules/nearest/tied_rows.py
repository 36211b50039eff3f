"""Joins with all right rows of the nearest time, for rankings that keep rows that tie: ``rank()``, ``dense_rank()``.

The first rows of a part have the nearest time of their left row.  So each left row is joined with this time first, and
then with the right rows of this time:

    t JOIN q ON q.k = t.k AND q.ts <= t.ts   →   (t with the last q.ts) JOIN q ON q.k = t.k AND q.ts = the last q.ts

The bounds on the time hold of the nearest one.  Left out, they make no band beside the equality.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical import Join
from dovetail.planner.logical.nearest_join import Nearest, NearestJoin, ShownRelation
from dovetail.planner.types.schema import Column
from dovetail.rules.nearest.pairs import Pairs, Wanted


def tied_rows(written: Join, pairs: Pairs, wanted: Wanted, nearest: Nearest, function: str) -> tuple[Join, NearestJoin]:
    """A join with all rows of the nearest time, and the join with this time on its left side.

    Raises ``Refused`` where the right side may have other rows when it is read again.
    """
    join, ctx = pairs.join, pairs.ctx
    if reason := ctx.nonrepeatable_reason(join.right):
        raise Refused(f"{function}() needs a second read of the right side, and {reason}")
    alias, time = ctx.fresh("nearest"), nearest.times[1]
    name = f"{alias}_time"
    shown = ShownRelation(alias, (Column(name, nearest.time_type),), (time,), hidden=True)
    outer = join.kind == "left"
    timed = NearestJoin(
        join.left,
        join.right,
        "left" if outer else "inner",
        "LEFT JOIN" if outer else "JOIN",
        join.condition,
        replace(nearest, right=(shown,)),
        certain=True,
    )
    rest = (conjunct for conjunct in join.condition if not pairs.only_bounds_time(conjunct, wanted))
    tied = Scalar(f"{operand(time)} = {alias}.{name}")
    condition = (*rest, tied)
    if written.kind == "right":
        return Join(join.right, timed, "right", written.keyword, condition), timed
    return Join(timed, join.right, timed.kind, timed.keyword, condition), timed
