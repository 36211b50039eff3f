"""Finds the column that a name in a DataFrame of Spark Connect refers to, as its server does.

A name is that of a column, perhaps behind an alias and before fields; ``left["id"]`` also has the number of the
operator whose column it is.  Where a name may refer to several columns, it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from dovetail.planner.catalog.settings import NameCase
from dovetail.planner.errors import Refused

_PART = re.compile(r"`((?:[^`]|``)*)`(?:\.|$)|([^.`]+)(?:\.|$)")


@dataclass(frozen=True)
class Attribute:
    """A column of an operator; ``plans``: the operators that have it, by number, with the distance to them.

    ``qualifier``: the names of its relation, from the outermost in.
    """

    id: int
    name: str
    qualifier: tuple[str, ...] = ()
    plans: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Attributes:
    """The columns that an operator returns, in their order."""

    all: tuple[Attribute, ...]
    case: NameCase

    def of(self, attributes: Iterable[Attribute]) -> Attributes:
        """The same for other columns."""
        return replace(self, all=tuple(attributes))

    def above(self, plan_id: int | None) -> Attributes:
        """The same columns, returned by an operator above."""
        here = {} if plan_id is None else {plan_id: 0}
        return self.of(replace(a, plans={**{id_: far + 1 for id_, far in a.plans.items()}, **here}) for a in self.all)

    def qualified(self, alias: str) -> Attributes:
        """The same columns behind an alias."""
        return self.of(replace(a, qualifier=(alias,)) for a in self.all)

    def find(self, name: str, plan_id: int | None) -> tuple[Attribute, tuple[str, ...]]:
        """Return the column of a name with dots and backquotes, and the names of fields behind it."""
        return self.find_parts(name_parts(name), plan_id)

    def find_parts(self, parts: tuple[str, ...], plan_id: int | None = None) -> tuple[Attribute, tuple[str, ...]]:
        """Return the column that the parts of a name refer to, and the parts behind it.

        Raises ``Refused`` if there is none, or more than one.
        """
        found = list(self._behind_alias(parts, plan_id)) or list(self._without_alias(parts, plan_id))
        if plan_id is not None and found:
            nearest = min(a.plans[plan_id] for a, _ in found)
            found = [(a, rest) for a, rest in found if a.plans[plan_id] == nearest]
        distinct = {a.id: (a, rest) for a, rest in found}
        if len(distinct) != 1:
            problem = "could be several columns" if distinct else "is no column"
            raise Refused(f"the name {'.'.join(parts)} {problem} of what is below it")
        return found[0]

    def named(self, name: str) -> list[Attribute]:
        """The columns of a name without dots."""
        return [a for a in self.all if self.case.is_same(a.name, name)]

    def star(self, qualifier: tuple[str, ...], plan_id: int | None) -> list[Attribute]:
        """The columns of ``*``, ``alias.*`` or of ``*`` of an operator.  Raises ``Refused`` if there are none."""
        found = [a for a in self.all if self._has(a, plan_id) and self._is_behind(a, qualifier)]
        if not found:
            raise Refused(f"{'.'.join((*qualifier, '*'))} has no columns in what is below it")
        return found

    def _has(self, a: Attribute, plan_id: int | None) -> bool:
        return plan_id is None or plan_id in a.plans

    def _is_behind(self, a: Attribute, qualifier: tuple[str, ...]) -> bool:
        return not qualifier or self.case.folded(a.qualifier)[-len(qualifier) :] == self.case.folded(qualifier)

    def _behind_alias(self, parts: tuple[str, ...], plan_id: int | None) -> Iterator[tuple[Attribute, tuple[str, ...]]]:
        for length in range(1, len(parts)):
            for a in self.named(parts[length]):
                if a.qualifier and self._has(a, plan_id) and self._is_behind(a, parts[:length]):
                    yield a, parts[length + 1 :]

    def _without_alias(
        self, parts: tuple[str, ...], plan_id: int | None
    ) -> Iterator[tuple[Attribute, tuple[str, ...]]]:
        for a in self.named(parts[0]):
            if self._has(a, plan_id):
                yield a, parts[1:]


def name_parts(name: str) -> tuple[str, ...]:
    """Split a name at its dots outside of backquotes.  Raises ``Refused`` for one that Spark does not read."""
    parts, place = [], 0
    while part := _PART.match(name, place):
        parts.append(part[2] if part[1] is None else part[1].replace("``", "`"))
        place = part.end()
    if not parts or place < len(name) or name.endswith("."):
        raise Refused(f"the name {name!r} is not read")
    return tuple(parts)
