"""Takes columns out of UNION ALL, whose parts compute each column in their own ways.

    SELECT lo, 100 / v AS share FROM a             UNION ALL  SELECT lo, w AS share FROM b
    SELECT lo, v AS c1, NULL AS c2, true AS c3 …   UNION ALL  SELECT lo, NULL AS c1, w AS c2, false AS c3 …

Each part has the added columns of both, and one that tells the parts apart: share is ``if(c3, 100 / c1, c2)``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from planner.errors import Unsupported
from planner.expr import Scalar, is_star, quote
from planner.logical import Derived, Logical, Project, SetOp
from planner.types.schema import Column
from rules.analysis.speculation import name_of
from rules.analysis.taken_columns import TakenOut
from rules.context import Context

_MOST = 12  # UNION ALL in one another, each of which is read inside the one around it


class UnionParts:
    """Both parts of a UNION ALL as subqueries, whose columns it joins by their positions.

    A column has the name that the left part gives it.  Raises ``Unsupported`` where columns are not known.
    """

    def __init__(self, union: SetOp, ctx: Context) -> None:
        if sum(isinstance(node, SetOp) for node in union.walk()) > _MOST:
            raise Unsupported("UNION ALL has many parts")
        self.union, self.ctx = union, ctx
        self.left, columns = self._part(union.left)
        self.right, others = self._part(_with_names(union.right, columns))
        if "NAME" in union.keyword.upper() or len(columns) != len(others):
            raise Unsupported("UNION ALL does not join columns by their positions")
        fold = ctx.names.fold
        self.pairs = {fold(one.name): (one, other) for one, other in zip(columns, others, strict=True)}

    def _part(self, query: Logical) -> tuple[Derived, tuple[Column, ...]]:
        part = Derived(query, None)
        (source,) = self.ctx.names.sources(part)
        columns = source.columns or ()
        if not columns or len({self.ctx.names.fold(column.name) for column in columns}) < len(columns):
            raise Unsupported("the columns of a part of UNION ALL are not known, or two of them have one name")
        return part, columns

    def check_types(self, names: Collection[str]) -> None:
        """Raise ``Unsupported`` where the parts give one of these columns different types, which Spark converts."""
        pairs = [self.pairs[name] for name in names if name in self.pairs]
        if any(one.type is None or one.type != other.type for one, other in pairs):
            raise Unsupported("the parts of UNION ALL give it different types")

    def in_right(self, names: Collection[str]) -> set[str]:
        """The folded names of columns in the right part."""
        return {self.ctx.names.fold(self.pairs[name][1].name) for name in names if name in self.pairs}

    def without(self, left: TakenOut, right: TakenOut, *, optional: bool) -> TakenOut:
        """The UNION ALL of both parts without the columns that are taken out of them.

        ``optional``: an outer join may show NULLs instead of a row.  Raises ``Unsupported`` where they differ in these.
        """
        gone = left.values.keys() | left.unused
        if self.in_right(gone) != right.values.keys() | right.unused:
            raise Unsupported("only one part of UNION ALL computes it for every row")
        first, values = self.ctx.fresh("late"), {}
        for name, text in left.values.items():
            if other := right.values.get(self.ctx.names.fold(self.pairs[name][1].name)):
                chosen = f"if({first}, {text}, {other})"
                values[name] = f"if({first} IS NULL, NULL, {chosen})" if optional else chosen
        kept = [pair for name, pair in self.pairs.items() if name not in gone]
        own, added = [c.name for c in left.added], [c.name for c in right.added]
        of_left = [*(quote(one.name) for one, _ in kept), *own, *map(_null, added), f"true AS {first}"]
        of_right = [*(quote(other.name) for _, other in kept), *map(_null, own), *added, f"false AS {first}"]
        union = replace(
            self.union,
            left=Project(left.relation, tuple(map(Scalar, of_left))),
            right=Project(right.relation, tuple(map(Scalar, of_right))),
        )
        columns = (*(replace(c, nullable=True) for c in (*left.added, *right.added)), Column(first, nullable=False))
        return TakenOut(union, values, columns, frozenset(gone - values.keys()))


def _null(name: str) -> str:
    return f"NULL AS {name}"


def _with_names(query: Logical, columns: tuple[Column, ...]) -> Logical:
    """The right part, in which items without a name have the names of the columns to their left."""
    if not isinstance(query, Project) or len(query.items) != len(columns):
        return query
    items = tuple(
        item if name_of(item) or is_star(item.tree) else Scalar(f"{item.text} AS {quote(column.name)}", item.plans)
        for item, column in zip(query.items, columns, strict=True)
    )
    return replace(query, items=items)
