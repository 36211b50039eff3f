"""Finds queries that number their rows without ties: row_number(), rank() or dense_rank() over a unique order.

Without ties the three functions agree: 1, 2, 3 and so on in each partition, and the same on every read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, quote, sql
from dovetail.planner.expr.calls import volatile
from dovetail.planner.logical import Aggregate, Derived, Filter, Logical, Sort
from dovetail.rules.analysis.unique import unique_keys
from dovetail.rules.context import Context
from dovetail.rules.query.query_block import QueryBlock, read_block
from dovetail.rules.query.select_list import SelectList

_NUMBERS = (exp.RowNumber, exp.Rank, exp.DenseRank)
_ORDERED = (*_NUMBERS, exp.Lag, exp.Lead)
_WHOLE = (exp.Count, exp.Min, exp.Max)
_SUMS = (exp.Sum, exp.Avg)


@dataclass(frozen=True)
class Numbering:
    """A column that numbers the rows of each part, without gaps.

    ``number`` and ``parts`` are names of shown columns, folded.  ``known``: parts with a NULL are left out of it.
    """

    number: str
    parts: tuple[str, ...]
    known: bool


def numberings(query: Logical, ctx: Context) -> tuple[Numbering, ...]:
    """The columns of a query that number its rows; it returns the same rows whenever it is read.

    Raises ``Refused``, ``Unsupported`` with the reason where the numbers may be others at another reading.
    """
    block = read_block(query)
    if block is None or not any(_number(item) for item in block.project.items):
        return ()
    if odd := next((n for n in block.clauses if not isinstance(n, Sort | Aggregate | Filter)), None):
        raise Refused(f"the numbered query has a clause {odd.label}")
    if any(isinstance(n, Filter) and n.clause == "QUALIFY" for n in block.below) or block.project.quantifier:
        raise Refused("the numbered query removes rows after it has numbered them")
    return _Numbered(query, block, ctx).found()


def _number(item: Scalar) -> bool:
    tree = item.tree.unalias()
    return isinstance(tree, exp.Window) and isinstance(tree.this, _NUMBERS)


class _Numbered:
    """One block that has windows in its select list."""

    def __init__(self, query: Logical, block: QueryBlock, ctx: Context):
        self.block = block
        self.ctx = ctx
        self.shown = SelectList(block.project, ctx.scope(block.tree))
        self.types = {ctx.names.fold(c.name): c.type for c in ctx.names.sources(_named(query))[0].columns or ()}
        self.keys = unique_keys(query, ctx, nulls=True)
        self.keys_of_known = unique_keys(query, ctx)

    def found(self) -> tuple[Numbering, ...]:
        self.check_the_rest()
        numbers: list[Numbering] = []
        for item in self.block.project.items:
            windows = list(item.tree.find_all(exp.Window))
            if _number(item):
                numbers.append(self.numbering(windows[0], self.ctx.names.fold(item.tree.alias_or_name)))
            elif windows:
                self.check(item, windows)
        return tuple(numbers)

    def numbering(self, window: exp.Window, name: str) -> Numbering:
        """Read the numbering of a ranking function.  Raises ``Refused`` if rows may tie."""
        parts = [self.shown.name_of(part) for part in self.parts(window)]
        if not name or None in parts:
            raise Refused(f"{sql(window)} restarts for a column that the query does not return")
        if (known := self.without_ties(window)) is None:
            reason = f"no unique key is known among the columns of {sql(window)}"
            raise Refused(f"rows may tie, so their numbers may change: {reason}")
        return Numbering(name, tuple(p for p in parts if p), known)

    def parts(self, window: exp.Window) -> list[exp.Expression]:
        if window.args.get("alias") or window.args.get("spec"):
            raise Refused(f"{sql(window)} has a frame, or a window with a name")
        return list(window.args.get("partition_by") or ())

    def without_ties(self, window: exp.Window) -> bool | None:
        """Whether rows can tie only where a part is NULL; None where they can elsewhere."""
        order = window.args.get("order")
        parts = {self.shown.name_of(part) for part in self.parts(window)}
        ordered = {self.shown.name_of(o.this) for o in order.expressions} if order else set()
        if any(key <= parts | ordered for key in self.keys):
            return False
        for key in self.keys_of_known:
            if key <= parts | ordered and all(self.never_null(name) for name in key - parts):
                return True
        return None

    def never_null(self, name: str) -> bool:
        """Whether WHERE leaves out the rows that have a NULL in a column."""
        value = next(value for shown, value in self.shown.items if shown == name)
        for conjunct in self.block.condition:
            tree = conjunct.tree.unnest()
            test = tree.this.unnest() if isinstance(tree, exp.Not) else None
            if isinstance(test, exp.Is) and isinstance(test.expression, exp.Null):
                try:
                    if self.shown.scope.bind(test.this.unnest()).canonical == value:
                        return True
                except Refused:
                    continue
        return False

    def check(self, item: Scalar, windows: list[exp.Window]) -> None:
        """Raise ``Refused`` unless an item with windows has one value at every reading."""
        type_ = self.types.get(self.ctx.names.fold(item.tree.alias_or_name))
        exact = type_ is not None and type_.exact_numeric
        for window in windows:
            function, ordered = window.this, window.args.get("order") is not None
            alone = len(windows) == 1 and window is item.tree.unalias()
            if isinstance(function, _WHOLE) or (isinstance(function, _SUMS) and alone and exact):
                deterministic = not ordered or self.without_ties(window) is False
            else:
                deterministic = isinstance(function, _ORDERED) and self.without_ties(window) is False
            if not deterministic:
                raise Refused(f"{sql(window)} may return another value when it is read again")

    def check_the_rest(self) -> None:
        """Raise ``Refused`` unless the query without its windows returns the same rows at every reading."""
        for item in self.block.project.items:
            if item.plans:
                raise Refused(f"{item.shown} holds a subquery")
            if item.tree.find(exp.Window) and (odd := volatile(item.tree)):
                raise Refused(f"{sql(odd)} is not known to be deterministic")
        items = tuple(i for i in self.block.project.items if not i.tree.find(exp.Window)) or (Scalar("1 AS one"),)
        if reason := self.ctx.nonrepeatable_reason(_named(replace(self.block.project, items=items))):
            raise Refused(f"the numbered query is read twice, and {reason}")


def _named(query: Logical) -> Derived:
    return Derived(query, "__dt", (), f"AS {quote('__dt')}")
