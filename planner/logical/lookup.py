"""Logical nodes of joins with a table as of a time: lookups of the present, and versions of the past."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.planner.expr import Scalar, quote
from dovetail.planner.logical import Join, JoinKind, Logical, Scan, conjunction
from dovetail.planner.logical.joins import RecognizedJoin
from dovetail.planner.logical.lookup_spec import Constant
from dovetail.planner.tree import plan_node


@dataclass(frozen=True)
class LookupKey:
    """A lookup key: ``column`` equals the values of ``value`` that its type can hold."""

    value: Scalar
    column: str

    @property
    def item(self) -> str:
        """The value as an item of a select list, by the name of the column."""
        return f"{self.value.text} AS {quote(self.column)}"


@plan_node
class LookupJoin(RecognizedJoin):
    """A lookup join: ``condition`` is all of ON, including the equalities of ``keys``.

    ``constants`` go to the fetch, too.  Keys are requested only where all of ``only`` hold: conditions on the left side
    without which no row needs them.  ``options`` are those of hints, by the names of ``LookupSpec``.
    """

    left: Logical
    right: Logical
    kind: JoinKind
    keyword: str
    condition: tuple[Scalar, ...]
    using: tuple[str, ...]
    table: str
    keys: tuple[LookupKey, ...]
    constants: tuple[tuple[str, Constant], ...] = ()
    only: tuple[Scalar, ...] = ()
    options: tuple[tuple[str, str | int | float | bool], ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def scan(self) -> Scan:
        """The table as the user names it."""
        assert isinstance(self.right, Scan)
        return self.right

    @property
    def plain(self) -> Join:
        return Join(self.left, self.right, self.kind, self.keyword, self.condition, self.using)

    @property
    def detail(self) -> str:
        return described(self.kind, self.table, self.condition, self.using, self.hints)


def described(
    kind: JoinKind, table: str, condition: tuple[Scalar, ...], using: tuple[str, ...], more: tuple[str, ...] = ()
) -> str:
    """What distinguishes a lookup join, as one line."""
    on = f"using {', '.join(using)}" if using else f"on {conjunction(condition)}"
    return ", ".join([kind, table, on, *more])
