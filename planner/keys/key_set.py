"""Key sets: the keys of a row of one side, as SQL, and the scheme that pairs the key sets of both sides.

A key is a BIGINT, the hash of some values.  Different values may have one hash: keys only prune.  What has to hold is
that a pair that satisfies the condition shares exactly one key, and that no row has a key twice.

    a.x = b.x                        {x}                           {x}
    array_contains(b.items, a.x)     {x}                           its distinct items
    a.x = b.x OR b.x IS NULL         (0, x), (1)                   (0, x), or (1) for NULL
    startswith(a.path, b.prefix)     its first 0, 1, 2, … bytes    the first bytes, as many as one of these lengths
    A OR B                           (0, key by A), (1, key by B)  the same; the first branch that is TRUE counts
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.planner.expr import Scalar

ELEMENT = "__dt_e"  # the variable of an element in a lambda; no name outside is read in its place
LEVELS = "__dt_levels"  # stands for the array of ``levels``


@dataclass(frozen=True)
class KeySet:
    """The keys of a row: a hash of ``values``, all SQL; with ``elements``, an array, one for each of its elements.

    ``element``: an element as it is hashed; ``distinct``: no element is NULL, and none is there twice.  A row has no
    key where one of the ``required`` values, or an element, is NULL, or a guard is not TRUE.  ``nulls``: a NULL among
    the elements is a key, too, as for ``array_intersect``.  ``levels``: the numbers in ``LEVELS``, such as the lengths
    to which prefixes are cut, 0 first; ``length``: that of the prefix of a row, by which they are chosen.
    """

    values: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    elements: str = ""
    element: str = ELEMENT
    distinct: bool = False
    nulls: bool = False
    length: str = ""
    levels: tuple[int, ...] = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)

    @property
    def many(self) -> bool:
        """Whether a row may have several keys."""
        return bool(self.elements)

    @property
    def copies(self) -> int:
        """How many keys a row has, at most; 1 where that depends on the elements of an array."""
        return len(self.levels) if LEVELS in self.elements else 1

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
            length=self.length or other.length,
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
        text = f"CASE WHEN {' AND '.join(known)} THEN {keys} END" if known else keys
        return text.replace(LEVELS, f"array({', '.join(map(str, self.levels))})")


@dataclass(frozen=True)
class Branch:
    """A branch of a disjunction: the keys of either side, and its condition as SQL."""

    left: KeySet
    right: KeySet
    condition: str = ""


@dataclass(frozen=True)
class KeyScheme:
    """The keys of a conjunct, or of several together, for each branch of an OR; without OR there is one."""

    conjuncts: tuple[Scalar, ...]
    branches: tuple[Branch, ...]

    def __str__(self) -> str:
        return " AND ".join(conjunct.shown for conjunct in self.conjuncts)

    def key_sets(self, side: str) -> tuple[KeySet, ...]:
        """The key sets of a side, ``left`` or ``right``, one for each branch."""
        return tuple(branch.left if side == "left" else branch.right for branch in self.branches)

    def copies(self, side: str) -> bool:
        """Whether rows of a side may have several keys."""
        return len(self.branches) > 1 or self.key_sets(side)[0].many

    @property
    def lengths(self) -> tuple[tuple[int, str, str], ...]:
        """The lengths of prefixes that keys depend on, as SQL, each with the number of its branch and its side."""
        branches = enumerate(self.branches)
        found = (
            (n, side, keys.length) for n, one in branches for side, keys in (("left", one.left), ("right", one.right))
        )
        return tuple(one for one in found if one[2])

    def with_levels(self, number: int, levels: tuple[int, ...]) -> KeyScheme:
        """The same with the prefixes of a branch cut to other lengths."""
        branch = self.branches[number]
        left, right = (replace(keys, levels=levels) for keys in (branch.left, branch.right))
        new = replace(branch, left=left, right=right)
        return replace(self, branches=(*self.branches[:number], new, *self.branches[number + 1 :]))


def all_keys(scheme: KeyScheme, side: str) -> str:
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
