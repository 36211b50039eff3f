"""Declarations: keys, versions, changelogs and lookup sources that a user declares for the tables of a session."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dovetail.executor.catalog.declared_tables import DeclaredTables
from dovetail.planner.catalog import UniqueKey
from dovetail.planner.catalog.declared import NOTHING, Changelog, Declaration, LookupTable, Versions
from dovetail.planner.errors import CatalogError, EnvironmentProblem, one_of
from dovetail.planner.expr import quote
from dovetail.planner.sql.table_names import name_of
from dovetail.planner.types.schema import Column, sql_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dovetail.executor.connectors.source import LookupSource


class Declarations(DeclaredTables):
    """Declarations on the tables of a session; each holds for the table that its name denotes when it is declared.

    ``sources``: the sources of lookups, by table.
    """

    def __init__(self, session: SparkSession) -> None:
        super().__init__()
        self.session = session
        self.sources: dict[str, LookupSource] = {}

    def copy(self) -> Hashable:
        """A copy of all declarations, to detect later ones."""
        sources = tuple(self.sources.items())
        return tuple(self.keys.items()), tuple(self.tables.items()), sources

    def register_lookup(self, table: str, source: LookupSource) -> None:
        """Register the source of a lookup; see ``Optimizer.register_lookup``."""
        try:
            from dovetail.executor.connectors.spark_table import SparkTable
            from dovetail.executor.lookup.fetch_rows import source_schema
        except ModuleNotFoundError as missing:
            remedy = "pip install pyarrow, here and on the executors"
            raise EnvironmentProblem(
                f"{table} cannot be a lookup: {missing.name} is not installed", remedy=remedy
            ) from None

        name = name_of(table)
        columns = tuple(
            Column(f.name, sql_type(f.dataType.simpleString())) for f in source_schema(self.session, source).fields
        )
        lookup = LookupTable(
            ".".join(map(quote, name)),
            columns,
            source.unique_keys,
            source.fetch_keys,
            source.rows(),
            source.can_scan_split,
            isinstance(source, SparkTable),
        )
        self.tables[name] = Declaration(lookup)
        self.sources[lookup.name] = source

    def declare_versions(self, table: str, key: Iterable[str], valid_from: str) -> None:
        """Declare a table with versions; see ``Optimizer.declare_versions``."""
        name, (*columns, since) = self._resolve_columns(table, (*_column_list("key", key), valid_from))
        self._declare(name, versions=Versions(tuple(columns), since))

    def declare_changelog(self, table: str, change_column: str, key: Iterable[str], *, insert_only: bool) -> None:
        """Declare a changelog; see ``Optimizer.declare_changelog``."""
        name, (change, *columns) = self._resolve_columns(table, (change_column, *_column_list("key", key)))
        self._declare(name, changelog=Changelog(change, tuple(columns), insert_only))

    def declare_key(self, table: str, columns: Iterable[str], *, enforced: bool) -> None:
        """Declare a unique key; see ``Optimizer.declare_key``."""
        from dovetail.executor.catalog.keys import identity
        from dovetail.executor.catalog.table_identity import identity_of

        name, resolved = self._resolve_columns(table, _column_list("columns", columns))
        full = identity(self.session, name)
        assert full is not None
        key = UniqueKey(resolved, enforced)
        self.keys[full] = (*(k for k in self.keys.get(full, ()) if k != key), key)
        self.identities[full, key] = identity_of(self.session, name)

    def _declare(self, name: tuple[str, ...], **declared: Any) -> None:
        """Add to the declaration of a table, for the table that the name denotes now."""
        from dovetail.executor.catalog.table_identity import identity_of

        self.tables[name] = replace(self.tables.get(name, NOTHING), **declared)
        self.identities[name, "declared"] = identity_of(self.session, name)

    def _resolve_columns(self, table: str, wanted: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The name of a table, and the wanted columns in the table's spelling.  Raises ``CatalogError``."""
        from dovetail.executor.catalog.keys import identity
        from dovetail.executor.catalog.spark_catalog import SparkCatalog

        name = name_of(table)
        found = SparkCatalog(self.session).columns(name)
        if found is None or identity(self.session, name) is None:
            tables = [t.name for t in self.session.catalog.listTables()]
            raise CatalogError(f"there is no table {table!r}; {one_of(tables, table)}")
        known = {c.name.lower(): c.name for c in found}
        if not wanted:
            raise CatalogError(f"a key of {table} needs at least one column; possible: {', '.join(known.values())}")
        for column in wanted:
            if column.lower() not in known:
                raise CatalogError(f"{table} has no column {column!r}; {one_of(known.values(), column)}")
        return name, tuple(known[c.lower()] for c in wanted)


def _column_list(argument: str, names: Iterable[str]) -> tuple[str, ...]:
    """The columns of an argument.  Raises ``CatalogError`` for one string, which would be read letter by letter."""
    if isinstance(names, str):
        raise CatalogError(f"{argument} is {names!r}, and not a list of columns; write [{names!r}]")
    return tuple(names)
