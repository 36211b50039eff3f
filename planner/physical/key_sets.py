"""Joins over key sets: conditions with OR, elements of arrays, NULL as any value (``planner/keys/``).

    a JOIN b ON a.email = b.email OR a.phone = b.phone

    left    │ 0, hash of email │ 1, hash of phone │        each row once for each branch, and once for each of its keys
    right   │ 0, hash of email │ 1, hash of phone │

Two rows that agree in both columns meet under both keys; the pair is taken under that of the first branch that is TRUE
for it.  Two arrays meet under each element that they have in common; the pair is taken under the least hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dovetail.planner.band.linear import Side
from dovetail.planner.expr import Scalar
from dovetail.planner.keys.key_set import KeyScheme
from dovetail.planner.physical.key_join import Keyed, Scheme
from dovetail.planner.rendered import NameGenerator

_SIDES: tuple[Side, Side] = ("left", "right")


@dataclass(frozen=True)
class KeySets(Scheme):
    """``KeyJoin``: keys of several conjuncts, of which a pair shares one each."""

    label: ClassVar[str] = "KeyJoin"
    schemes: tuple[KeyScheme, ...]

    @property
    def conjuncts(self) -> tuple[Scalar, ...]:
        return tuple(conjunct for scheme in self.schemes for conjunct in scheme.conjuncts)

    @property
    def never_raises(self) -> bool:
        alone = all(len(scheme.branches) == len(scheme.conjuncts) == 1 for scheme in self.schemes)
        keys = (keys for scheme in self.schemes for side in _SIDES for keys in scheme.key_sets(side))
        return alone and not any(one.may_raise for one in keys)

    def __str__(self) -> str:
        return " AND ".join(map(str, self.schemes))

    @property
    def copied(self) -> tuple[Side, ...]:
        return tuple(side for side in _SIDES if any(scheme.copies(side) for scheme in self.schemes))

    @property
    def note(self) -> str:
        return "; ".join(map(_describe, self.schemes))

    def keyed(self, sides: tuple[str, ...], names: NameGenerator) -> Keyed:
        """Both sides with columns for tags and keys, where a row has several."""
        texts = list(sides)
        keys: list[list[str]] = [[], []]
        for scheme in self.schemes:
            for n, side in enumerate(_SIDES):
                texts[n], columns = _with_keys(texts[n], scheme, side, names)
                keys[n] += columns
        pairs = tuple(zip(*keys, strict=True))
        return Keyed(texts[0], texts[1], pairs, self._also)

    def _also(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """The conditions under which a pair is taken under a key, of several that it may share."""
        found: list[str] = []
        rest = list(keys)
        for scheme in self.schemes:
            tag = rest.pop(0) if len(scheme.branches) > 1 else ""
            key = rest.pop(0)
            if tag:
                branches = (f"WHEN {branch.condition} THEN {n}" for n, branch in enumerate(scheme.branches))
                found.append(f"CASE {' '.join(branches)} END = {tag}")
            for n, (left, right) in enumerate(zip(*map(scheme.key_sets, _SIDES), strict=True)):
                if left.many and right.many:
                    least = f"{key} = array_min(array_intersect({left.sql}, {right.sql}))"
                    found.append(f"({tag} <> {n} OR {least})" if tag else least)
        return tuple(found)


def _with_keys(text: str, scheme: KeyScheme, side: Side, names: NameGenerator) -> tuple[str, list[str]]:
    """A side with its keys, and their names or the expressions that they are."""
    sets = scheme.key_sets(side)
    if not scheme.copies(side):
        return text, [sets[0].sql]
    alias, key = names.new("key")
    if len(sets) == 1:
        return f"({text} JOIN LATERAL explode({sets[0].sql}) AS {alias}({key}))", [key]
    tag = f"{alias}_branch"
    if not any(one.many for one in sets):
        keys = ", ".join(one.sql for one in sets)
        return f"({text} JOIN LATERAL posexplode(array({keys})) AS {alias}({tag}, {key}))", [tag, key]
    arrays = ", ".join(one.sql if one.many else f"array({one.sql})" for one in sets)
    inner, each = names.new("keys")
    text = f"({text} JOIN LATERAL posexplode(array({arrays})) AS {inner}({tag}, {each}))"
    return f"({text} JOIN LATERAL explode({each}) AS {alias}({key}))", [tag, key]


def _describe(scheme: KeyScheme) -> str:
    """How many keys a row of each side has."""
    words = []
    for side in _SIDES:
        sets = scheme.key_sets(side)
        several = any(one.many for one in sets)
        number = "several keys" if several else f"{len(sets)} keys" if len(sets) > 1 else "one key"
        words.append(f"{number} for a row of the {side} side")
    return ", ".join(words)
