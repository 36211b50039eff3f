"""Key sets: the keys of a row of one side, as SQL, and the scheme that pairs the key sets of both sides.

A key is a BIGINT, the hash of some values.  Different values may have one hash: keys only prune.  What has to hold is
that a pair that satisfies the condition shares exactly one key, and that no row has a key twice.

    a.x = b.x                        {x}                           {x}
    array_contains(b.items, a.x)     {x}                           its distinct items
    a.x = b.x OR b.x IS NULL         (0, x), (1)                   (0, x), or (1) for NULL
    startswith(a.path, b.prefix)     its first 0, 1, 2, … bytes    the first bytes, as many as one of these lengths
    a.t BETWEEN b.s AND b.e          two bins of each of some widths  the bin that it begins in, of the width that suits
    A OR B                           (0, key by A), (1, key by B)  the same; the first branch that is TRUE counts
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dovetail.planner.band.linear import Side
from dovetail.planner.catalog import Numbers
from dovetail.planner.expr import Scalar

ELEMENT = "__dt_e"  # the variable of an element in a lambda; no name outside is read in its place


@dataclass(frozen=True)
class KeySet:
    """The keys of a row: a hash of ``values``, all SQL; with ``elements``, an array, one for each of its elements.

    ``element``: an element as it is hashed; ``distinct``: no element is NULL, and none is there twice.  A row has no
    key where one of the ``required`` values, or an element, is NULL, or a guard is not TRUE.  ``nulls``: a NULL among
    the elements is a key, too, as for ``array_intersect``.  ``copies``: how many keys a row has, at most; 1 where that
    depends on the elements of an array.  ``may_raise``: a row on which the comparison raises an error may have a key.
    """

    values: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    elements: str = ""
    element: str = ELEMENT
    distinct: bool = False
    nulls: bool = False
    copies: int = 1
    may_raise: bool = False

    @property
    def many(self) -> bool:
        """Whether a row may have several keys."""
        return bool(self.elements)

    @property
    def is_constant(self) -> bool:
        """Whether all rows have the same key, or none."""
        return not self.values and not self.elements

    def times(self, other: KeySet) -> KeySet:
        """The keys of a conjunction: pairs of keys.  Only the last one has elements."""
        return replace(
            other if other.many else self,
            values=self.values + other.values,
            required=self.required + other.required,
            guards=self.guards + other.guards,
            may_raise=self.may_raise or other.may_raise,
        )

    def guarded(self, *guards: str) -> KeySet:
        """The keys of rows for which the guards are TRUE."""
        return replace(self, guards=(*guards, *self.guards))

    @property
    def sql(self) -> str:
        """The key as BIGINT, or the keys as ARRAY<BIGINT>; NULL for a row without keys."""
        known = [*self.guards, *(f"{value} IS NOT NULL" for value in self.required)]
        if self.many:
            hashed = f"xxhash64({', '.join((*self.values, self.element))})"
            present = self.elements
            if not (self.distinct or self.nulls):
                present = f"filter({present}, {ELEMENT} -> {self.element} IS NOT NULL)"
            keys = f"transform({present}, {ELEMENT} -> {hashed})"
            keys = keys if self.distinct else f"array_distinct({keys})"
        else:
            keys = f"xxhash64({', '.join(self.values)})" if self.values else "0L"
        return f"CASE WHEN {' AND '.join(known)} THEN {keys} END" if known else keys


Sides = tuple[KeySet, KeySet]


class Leveled(ABC):
    """A comparison whose keys depend on numbers, any of which are right: lengths of prefixes, widths of bins.

    A sample shows which of them suit: those under which few pairs share a key, and a row has few keys.
    """

    @property
    @abstractmethod
    def sides(self) -> Sides:
        """The keys of the left and the right side."""

    @property
    @abstractmethod
    def sampled(self) -> tuple[Side, str]:
        """The side to sample, and the items of the select list."""

    @abstractmethod
    def fitted(self, sample: Sequence[Numbers], rows: int | None) -> Leveled:
        """The same with levels that suit a sample of so many rows."""

    def why_useless(self, sample: Sequence[Numbers]) -> str:
        """The reason why most pairs would share a key, if a sample shows that."""
        return ""

    @property
    def pair_time(self) -> float:
        """How long a pair takes in a nested loop, in times of one that compares numbers."""
        return 1.0

    @property
    def copied(self) -> tuple[Side, str] | None:
        """A side whose rows have as many keys as an expression of it says, and that expression, to sample it."""
        return None

    def with_copies(self, sample: Sequence[Numbers]) -> Leveled:
        """The same with the keys of a row that a sample of it shows.  Raises ``Refused`` if they are too many."""
        return self


@dataclass(frozen=True)
class Branch:
    """A branch of a disjunction: the keys of either side, and its condition as SQL.

    ``leveled``: a comparison whose keys are multiplied with those of ``sides``.
    """

    sides: Sides
    condition: str = ""
    leveled: Leveled | None = None

    def keys(self, side: Side) -> KeySet:
        """The keys of a side."""
        number = int(side == "right")
        return self.sides[number].times(self.leveled.sides[number]) if self.leveled else self.sides[number]


@dataclass(frozen=True)
class KeyScheme:
    """The keys of a conjunct, or of several together, for each branch of an OR; without OR there is one.

    ``with_bands``: bands beside an equality have keys as well.
    """

    conjuncts: tuple[Scalar, ...]
    branches: tuple[Branch, ...]
    with_bands: bool = False

    def __str__(self) -> str:
        text = " AND ".join(conjunct.shown for conjunct in self.conjuncts)
        return f"{text}, with bins" if self.with_bands else text

    def key_sets(self, side: Side) -> tuple[KeySet, ...]:
        """The key sets of a side, one for each branch."""
        return tuple(branch.keys(side) for branch in self.branches)

    def copies(self, side: Side) -> bool:
        """Whether rows of a side may have several keys."""
        return len(self.branches) > 1 or self.key_sets(side)[0].many

    @property
    def pair_time(self) -> float:
        """How long a pair takes in a nested loop, in times of one that compares numbers; of the slowest branch."""
        return max(branch.leveled.pair_time if branch.leveled else 1.0 for branch in self.branches)

    def with_leveled(self, number: int, leveled: Leveled) -> KeyScheme:
        """The same with other levels in a branch."""
        new = replace(self.branches[number], leveled=leveled)
        return replace(self, branches=(*self.branches[:number], new, *self.branches[number + 1 :]))


def all_keys(scheme: KeyScheme, side: Side) -> str:
    """A select item that returns a row for each key of a row, to sample them."""
    sets = scheme.key_sets(side)
    if not scheme.copies(side):
        return sets[0].sql
    if len(sets) == 1:
        return f"explode({sets[0].sql})"
    arrays = (
        f"transform({one.sql}, {ELEMENT} -> {ELEMENT} ^ {n}L)" if one.many else f"array({one.sql} ^ {n}L)"
        for n, one in enumerate(sets)
    )
    return f"explode(concat({', '.join(arrays)}))"
