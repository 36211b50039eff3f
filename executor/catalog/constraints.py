"""The user's declarations about tables, and whether they are still valid."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from dovetail.executor.catalog.declared_tables import DeclaredTables
from dovetail.executor.catalog.keys import catalog_keys, identity
from dovetail.executor.catalog.table_identity import TableIdentity, identity_of, is_unchanged
from dovetail.planner.catalog import UniqueKey
from dovetail.planner.catalog.declared import NOTHING, Declaration
from dovetail.planner.deadline import check_deadline
from dovetail.planner.expr import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dovetail.executor.session.settings import SessionSettings
    from dovetail.planner.catalog import Settings

K = TypeVar("K")
V = TypeVar("V")


class CatalogConstraints:
    """The part of a catalog that holds keys, declarations, and table identities."""

    @property
    @abstractmethod
    def settings(self) -> Settings:
        """The session settings that affect the semantics of SQL."""

    def __init__(self, session: SparkSession, declared: DeclaredTables, known: SessionSettings):
        self.session = session
        self.known = known
        self.declared = declared
        self.seconds = 0.0
        self.requests = 0
        self._keys: dict[tuple[str, ...], tuple[UniqueKey, ...]] = {}
        self._table_keys: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._identities: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._current: dict[tuple[str, ...], TableIdentity | None] = {}
        self._expired_keys: dict[tuple[str, ...], str] = {}

    def _memoize(self, memo: dict[K, V], key: K, compute: Callable[[K], V]) -> V:
        """Compute a value once."""
        if key not in memo:
            check_deadline()
            start, before = perf_counter(), self.requests
            memo[key] = compute(key)
            self.requests = max(self.requests, before + 1)  # what it computes may be another request
            self.seconds += perf_counter() - start
        return memo[key]

    def keys(self, name: tuple[str, ...]) -> tuple[UniqueKey, ...]:
        """Return the keys that the user declared, and those of the table's catalog."""
        return self._memoize(self._keys, name, self._find_keys)

    def _find_keys(self, name: tuple[str, ...]) -> tuple[UniqueKey, ...]:
        known = identity(self.session, name, self.known)
        if known is None:
            return ()
        declared = self.declared.keys.get(known, ())
        valid = tuple(key for key in declared if self._is_valid(name, (known, key)))
        if lost := [key for key in declared if key not in valid]:
            columns = ", ".join(quote(column) for column in lost[0].columns)
            table = ".".join(map(quote, name))
            why = f"the key ({columns}) was declared for an earlier table {table} and is ignored; declare it again"
            if self.declared.identities[known, lost[0]] is None:
                cause = "Spark Connect does not expose the tables that it reads"
                why = f"the key ({columns}) of {table} is ignored, since {cause}"
            self._expired_keys[name] = why
        return (*valid, *catalog_keys(self.session, known, self.known))

    def _is_valid(self, name: tuple[str, ...], declared: tuple[tuple[str, ...], UniqueKey]) -> bool:
        """Whether a declared key is valid: the table is certainly unchanged, or its identity was not recorded."""
        identities = self.declared.identities
        return declared not in identities or (
            identities[declared] is not None and self._is_unchanged(name, identities[declared])
        )

    def _is_unchanged(self, name: tuple[str, ...], then: TableIdentity | None) -> bool:
        """Whether a name refers to the same table as before; an unrecorded identity counts as unchanged."""
        if then is None:
            return True
        now = self._memoize(self._current, name, partial(identity_of, self.session))
        return is_unchanged(self.session, name, then, now)

    def expired_key_reason(self, name: tuple[str, ...]) -> str | None:
        """Why a declared key of a name is no longer valid; None if all are valid."""
        self.keys(name)
        return self._expired_keys.get(name)

    def table_key(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """Normalize a table name, if Spark's own catalog resolves its spellings to one table."""
        small = tuple(map(str.lower, name))
        if small == name or self.settings.case_sensitive:
            return name
        return self._memoize(self._table_keys, name, self._find_table_key)

    def _find_table_key(self, name: tuple[str, ...]) -> tuple[str, ...]:
        small = tuple(map(str.lower, name))
        known = identity(self.session, name, self.known)  # None for a path
        return small if known and known[-len(small) :] == small else name

    def identity(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """Return the full name of the table that a name refers to now; the name itself if there is none."""
        return self._memoize(
            self._identities, name, lambda wanted: identity(self.session, wanted, self.known) or wanted
        )

    def declaration(self, name: tuple[str, ...]) -> Declaration:
        """Return the user's declarations about a table."""
        for declared_name, declared in self.declared.tables.items():
            if declared_name == name or (
                self.settings.folded(declared_name) == self.settings.folded(name)
                and self._is_same_name(declared_name, name)
            ):
                return self._valid_part(declared_name, declared)
        return NOTHING

    def declared_names(self) -> tuple[tuple[str, ...], ...]:
        """The names of all tables of which the user has declared something."""
        return tuple(self.declared.tables)

    def _is_same_name(self, declared_name: tuple[str, ...], name: tuple[str, ...]) -> bool:
        """Whether two names that differ in case are one table; names of lookups, which are in no catalog, are."""
        return bool(self.declared.tables[declared_name].lookup) or self.table_key(declared_name) == self.table_key(name)

    def _valid_part(self, declared_name: tuple[str, ...], declared: Declaration) -> Declaration:
        """Return the valid part of a declaration; the changes of a replaced table may be of any kind."""
        if self._is_unchanged(declared_name, self.declared.identities.get((declared_name, "declared"))):
            return declared
        changelog = declared.changelog and replace(declared.changelog, insert_only=False)
        return replace(declared, changelog=changelog, expired=True)
