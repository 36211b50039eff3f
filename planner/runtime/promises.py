"""What the user has promised about tables, by the names that they had then, and what of it holds now."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from planner.catalog import UniqueKey
from planner.catalog.declared import NOTHING, Declaration
from planner.expr import quote
from planner.runtime.keys import Declared, identity, told
from planner.runtime.meaning import Meaning, meant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from planner.catalog import Settings

# What names meant when a key, or anything else, was declared of them.
Meanings = Mapping[tuple[tuple[str, ...], UniqueKey | str], Meaning | None]
K = TypeVar("K")
V = TypeVar("V")


class Promises:
    """The part of a catalog that knows keys, declarations, and which names are of one table.

    ``declared`` are keys by the full names of tables, ``declarations`` all else by the names as written, ``meanings``
    what these names meant then.
    """

    @property
    @abstractmethod
    def settings(self) -> Settings:
        """The settings of the session that decide what SQL means."""

    def __init__(
        self,
        session: SparkSession,
        declared: Declared,
        declarations: Mapping[tuple[str, ...], Declaration],
        meanings: Meanings,
    ):
        self.session = session
        self.declared = declared
        self.declarations = declarations
        self.meanings = meanings
        self.seconds = 0.0
        self._keys: dict[tuple[str, ...], tuple[UniqueKey, ...]] = {}
        self._table_keys: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._identities: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._meant: dict[tuple[str, ...], Meaning | None] = {}
        self._lapsed: dict[tuple[str, ...], str] = {}

    def _once(self, kept: dict[K, V], key: K, ask: Callable[[K], V]) -> V:
        """The answer to a question that is asked once."""
        if key not in kept:
            start = perf_counter()
            kept[key] = ask(key)
            self.seconds += perf_counter() - start
        return kept[key]

    def keys(self, name: tuple[str, ...]) -> tuple[UniqueKey, ...]:
        """The keys that the user declared, and those that the table's catalog tells."""
        return self._once(self._keys, name, self._find_keys)

    def _find_keys(self, name: tuple[str, ...]) -> tuple[UniqueKey, ...]:
        known = identity(self.session, name)
        if known is None:
            return ()
        declared = self.declared.get(known, ())
        kept = tuple(key for key in declared if self._holds(name, (known, key)))
        if lost := [key for key in declared if key not in kept]:
            columns = ", ".join(quote(column) for column in lost[0].columns)
            said = ".".join(map(quote, name))
            why = f"the key ({columns}) was declared of what {said} meant then, and does not count now"
            if self.meanings[known, lost[0]] is None:
                cause = "Spark Connect does not tell which tables it reads"
                why = f"the key ({columns}) of {said} does not count, since {cause}"
            self._lapsed[name] = why
        return (*kept, *told(self.session, known))

    def _holds(self, name: tuple[str, ...], declared: tuple[tuple[str, ...], UniqueKey]) -> bool:
        """Whether a key that was declared counts: certainly of what the name means now, or nobody has noted of what."""
        if declared not in self.meanings:
            return True
        return self.meanings[declared] is not None and self._still(name, self.meanings[declared])

    def _still(self, name: tuple[str, ...], then: Meaning | None) -> bool:
        """Whether a name means what it did; what nobody has written down is taken to last."""
        if then is None:
            return True
        now = self._once(self._meant, name, partial(meant, self.session))
        return now is not None and now.same(then)

    def lapsed(self, name: tuple[str, ...]) -> str | None:
        """Why a key that was declared of a name does not count now; None where all do."""
        self.keys(name)
        return self._lapsed.get(name)

    def table_key(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """One name for all ways to write that of a table, as far as Spark's own catalog says that they are one."""
        small = tuple(map(str.lower, name))
        if small == name or self.settings.case_sensitive:
            return name
        return self._once(self._table_keys, name, self._find_table_key)

    def _find_table_key(self, name: tuple[str, ...]) -> tuple[str, ...]:
        small = tuple(map(str.lower, name))
        known = identity(self.session, name)  # None for the path of a file
        return small if known and known[-len(small) :] == small else name

    def identity(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """The full name of the table that a name means now; the name itself where there is none."""
        return self._once(self._identities, name, lambda asked: identity(self.session, asked) or asked)

    def declaration(self, name: tuple[str, ...]) -> Declaration:
        """What the user has declared about a table, by the name that it was declared under."""
        for own, declared in self.declarations.items():
            if own == name or (tuple(map(self._fold, own)) == tuple(map(self._fold, name)) and self._one(own, name)):
                return self._lasting(own, declared)
        return NOTHING

    def _fold(self, part: str) -> str:
        return part if self.settings.case_sensitive else part.lower()

    def _one(self, own: tuple[str, ...], name: tuple[str, ...]) -> bool:
        """Whether two names that differ in case are one: those of lookups, which no catalog has, are."""
        return bool(self.declarations[own].lookup) or self.table_key(own) == self.table_key(name)

    def _lasting(self, own: tuple[str, ...], declared: Declaration) -> Declaration:
        """What still holds of a declaration; changes of another table may be of any kind."""
        if self._still(own, self.meanings.get((own, "declared"))):
            return declared
        changelog = declared.changelog and replace(declared.changelog, insert_only=False)
        return replace(declared, changelog=changelog, lapsed=True)
