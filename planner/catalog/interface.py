"""What the planner may ask about the world: tables, session settings, statistics.

The runtime answers from a Spark session, the golden plans from a TOML file; both say None when they do not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from planner.catalog.declared import Declaration
from planner.catalog.stats import Statistics
from planner.types.schema import Column

Numbers = tuple[float | None, ...]


@dataclass(frozen=True)
class Settings:
    """The session settings that decide what SQL means."""

    ansi: bool = True
    case_sensitive: bool = False
    time_zone: str = "UTC"
    asof_join: bool = False  # Spark's ASOF JOIN is switched on
    timestamp_ntz: bool = False  # TIMESTAMP in a statement means TIMESTAMP_NTZ
    commas_last: bool = False  # a comma in FROM binds less than JOIN
    double_quoted_identifiers: bool = False  # "k" is a name
    escaped_string_literals: bool = False  # a backslash is a backslash
    consecutive_string_literals: bool = False  # 'it''s' is two texts
    equal_set_operations: bool = False  # INTERSECT binds no tighter than UNION
    outer_with_names: bool = False  # of two names in WITH the outer one counts, or neither
    own_functions_first: bool = False  # a temporary function hides Spark's function of its name
    others: tuple[tuple[str, str], ...] = ()  # whatever else has been set that may change what a text means

    @property
    def reads_otherwise(self) -> bool:
        """Whether texts without quotes may mean something else, too."""
        return self.equal_set_operations or self.outer_with_names or self.own_functions_first

    @property
    def fixed_zone(self) -> bool:
        """Whether every day of the session's time zone has 24 hours."""
        zone = self.time_zone.upper()
        return zone in ("UTC", "ETC/UTC", "GMT", "ETC/GMT", "Z", "ZULU", "UCT") or zone[:1] in "+-"


@dataclass(frozen=True)
class UniqueKey:
    """Columns that no two rows of a table without a NULL in them agree on.

    ``enforced``: whoever writes the table keeps it so.  Otherwise it is informational, a promise that nobody checks.
    """

    columns: tuple[str, ...]
    enforced: bool = True


@dataclass(frozen=True)
class View:
    """What a view in SQL stands for.

    ``columns`` are those of its query, which the view may show under names of its own.  Names of one part in ``text``
    are looked up in ``namespace``, catalog and database; but for ``temporary``, which are temporary views.
    ``settings`` are those of the session that made it.
    """

    text: str
    columns: tuple[str, ...]
    namespace: tuple[str, ...]
    temporary: tuple[tuple[str, ...], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


class OneByOne:
    """The questions of a catalog that take several at once, for one that answers from memory, in which names last."""

    def lapsed(self, name: tuple[str, ...]) -> str | None:
        """None: a name means what it always did."""
        return None

    def table_key(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """The name, in small letters unless the session tells letters apart, or it is that of a file."""
        exact = self.settings.case_sensitive or not all(map(str.isidentifier, name))  # type: ignore[attr-defined]
        return name if exact else tuple(map(str.lower, name))

    def identity(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """The full name, where no database is left out."""
        return self.table_key(name)

    def statistics_all(self, relations: tuple[str, ...]) -> tuple[Statistics, ...]:
        """The statistics of one after the other."""
        return tuple(self.statistics(relation) for relation in relations)  # type: ignore[attr-defined]

    def measure_all(self, queries: tuple[str, ...]) -> tuple[tuple[Numbers, ...] | None, ...]:
        """Measure one after the other."""
        return tuple(self.measure(query) for query in queries)  # type: ignore[attr-defined]


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
        """The keys of a table or view, as declared or as its own catalog tells them."""
        ...

    def lapsed(self, name: tuple[str, ...]) -> str | None:
        """Why a key that was declared of a name does not count now; None where all do."""
        ...

    def table_key(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """One name for all ways to write that of a table; those of which nobody says that they are one stay apart."""
        ...

    def identity(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """The full name of the table that a name means now: two with one are one table."""
        ...

    def view(self, name: tuple[str, ...]) -> View | None:
        """What a view stands for; None for a table, a view made otherwise than by SQL, or where that cannot be told."""
        ...

    def other_setting(self, view: View) -> str | None:
        """A setting that is not now what it was when the view was made, and may change what its text means."""
        ...

    def schema(self, query: str) -> tuple[Column, ...] | None:
        """The columns that a query returns, with their types; None when that cannot be told.  Never runs it."""
        ...

    def statistics(self, relation: str) -> Statistics:
        """What is known about the rows of ``relation``, a query in SQL; never runs it."""
        ...

    def statistics_all(self, relations: tuple[str, ...]) -> tuple[Statistics, ...]:
        """The same for several, none of which waits for another."""
        ...

    def measure(self, query: str) -> tuple[Numbers, ...] | None:
        """Run a query that returns a few rows of numbers; None if it cannot be run."""
        ...

    def measure_all(self, queries: tuple[str, ...]) -> tuple[tuple[Numbers, ...] | None, ...]:
        """Run several such queries, none of which waits for another."""
        ...

    def declaration(self, name: tuple[str, ...]) -> Declaration:
        """What the user has declared about a table: that it is a lookup, keeps versions, or is a changelog."""
        ...

    def streams(self, query: str) -> int:
        """How many streams ``query`` reads, each as often as it is read; 0 where Spark does not take it."""
        ...

    def unrepeatable(self, query: str) -> str | None:
        """Why reading ``query`` twice within a statement might give other rows, or None when it cannot."""
        ...
