"""What the user declares about tables, with the identities that the tables had then."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dovetail.planner.catalog import UniqueKey
from dovetail.planner.catalog.declared import Declaration

if TYPE_CHECKING:
    from dovetail.executor.catalog.table_identity import TableIdentity


@dataclass(eq=False)
class DeclaredTables:
    """Declarations: ``keys`` by the full name of a table, all others in ``tables`` by the name as written.

    ``identities``: those of the tables when a key, or anything else, was declared.
    """

    keys: dict[tuple[str, ...], tuple[UniqueKey, ...]] = field(default_factory=dict)
    tables: dict[tuple[str, ...], Declaration] = field(default_factory=dict)
    identities: dict[tuple[tuple[str, ...], UniqueKey | str], TableIdentity | None] = field(default_factory=dict)

    def of_streams(self) -> DeclaredTables:
        """The keys, changelogs and versions, which decide how streams are joined."""
        tables = {n: replace(t, lookup=None) for n, t in self.tables.items() if t.changelog or t.versions}
        return DeclaredTables(self.keys, tables, self.identities)

    def changelogs(self) -> DeclaredTables:
        """The changelogs alone."""
        tables = {n: Declaration(changelog=t.changelog) for n, t in self.tables.items() if t.changelog}
        return DeclaredTables({}, tables, self.identities)
