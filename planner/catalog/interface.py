"""The catalog interface: tables, session settings, statistics.

The runtime implements it on a Spark session, the golden plans on a TOML file; both return None for unknown values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dovetail.planner.catalog.declared import Declaration
from dovetail.planner.catalog.settings import Settings
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.types.schema import Column

Numbers = tuple[float | None, ...]


@dataclass(frozen=True)
class UniqueKey:
    """A unique key: no two rows have equal non-NULL values in these columns.

    ``enforced``: the writer of the table enforces it.  Otherwise it is informational, and nothing checks it.
    """

    columns: tuple[str, ...]
    enforced: bool = True


@dataclass(frozen=True)
class View:
    """The definition of an SQL view.

    ``columns`` are the columns of its query, which the view may rename.  Single-part names in ``text`` are resolved in
    ``namespace``, a catalog and database, except ``temporary``, which are temporary views.  ``settings`` are those of
    the session that created it.
    """

    text: str
    columns: tuple[str, ...]
    namespace: tuple[str, ...]
    temporary: tuple[tuple[str, ...], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


class SequentialCatalog:
    """Batch methods of a catalog that answers from memory, one by one; its names never change their tables."""

    def expired_key_reason(self, name: tuple[str, ...]) -> str | None:
        """None: names never change their tables."""
        return None

    def table_key(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """Return the name in lower case, unless the session is case-sensitive or the name is a path."""
        exact = self.settings.case_sensitive or not all(map(str.isidentifier, name))  # type: ignore[attr-defined]
        return name if exact else tuple(map(str.lower, name))

    def identity(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """Return the full name."""
        return self.table_key(name)

    def statistics_all(self, relations: tuple[str, ...]) -> tuple[Statistics, ...]:
        """Return the statistics of each relation."""
        return tuple(self.statistics(relation) for relation in relations)  # type: ignore[attr-defined]

    def measure_all(self, queries: tuple[str, ...]) -> tuple[tuple[Numbers, ...] | None, ...]:
        """Measure each query."""
        return tuple(self.measure(query) for query in queries)  # type: ignore[attr-defined]

    def is_deterministic(self, query: str) -> bool:
        """False: users' functions are not known."""
        return False


class Catalog(Protocol):
    """Tables, settings and statistics."""

    @property
    def settings(self) -> Settings:
        """The settings of the session."""
        ...

    def columns(self, name: tuple[str, ...]) -> tuple[Column, ...] | None:
        """The columns of a table or view, or None when there is no such table."""
        ...

    def keys(self, name: tuple[str, ...]) -> tuple[UniqueKey, ...]:
        """The unique keys of a table or view, declared by the user or by its catalog."""
        ...

    def expired_key_reason(self, name: tuple[str, ...]) -> str | None:
        """Why a declared key of a name is no longer valid; None if all are valid."""
        ...

    def table_key(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """Normalize a table name, so that spellings that certainly refer to one table are equal."""
        ...

    def identity(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """The full name of the table that a name refers to now; equal full names are one table."""
        ...

    def view(self, name: tuple[str, ...]) -> View | None:
        """The definition of a view; None for a table, a view that SQL did not create, or if unknown."""
        ...

    def changed_setting(self, view: View) -> str | None:
        """A setting that has changed since the view was created and may change its meaning; None if there is none."""
        ...

    def schema(self, query: str) -> tuple[Column, ...] | None:
        """The columns of a query with their types; None if unknown.  Never runs the query."""
        ...

    def statistics(self, relation: str) -> Statistics:
        """The statistics of ``relation``, an SQL query.  Never runs the query."""
        ...

    def statistics_all(self, relations: tuple[str, ...]) -> tuple[Statistics, ...]:
        """The statistics of several relations, computed concurrently."""
        ...

    def measure(self, query: str) -> tuple[Numbers, ...] | None:
        """Run a query that returns a few rows of numbers; None if it fails."""
        ...

    def measure_all(self, queries: tuple[str, ...]) -> tuple[tuple[Numbers, ...] | None, ...]:
        """Run several such queries concurrently."""
        ...

    def declaration(self, name: tuple[str, ...]) -> Declaration:
        """The user's declarations about a table."""
        ...

    def declared_names(self) -> tuple[tuple[str, ...], ...]:
        """The names of all tables of which the user has declared something."""
        ...

    def streams(self, query: str, *others: str) -> int:
        """The number of stream scans in ``query``; 0 if Spark rejects it.

        ``others``: queries whose analysis is needed next, which a session does at the same time.
        """
        ...

    def is_deterministic(self, query: str) -> bool:
        """Whether Spark knows all functions of ``query``, users' functions too, to be deterministic."""
        ...

    def nonrepeatable_reason(self, query: str) -> str | None:
        """Why two reads of ``query`` within a statement may return different rows; None if they cannot."""
        ...
