"""User declarations about tables: lookup tables, versioned tables, and changelogs."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.planner.types.schema import Column


@dataclass(frozen=True)
class LookupTable:
    """The properties of a ``LookupSource`` that planning needs; ``rows`` is None if unknown.

    ``fetch_keys``: sets of columns that rows can be fetched by, None for any.  ``scans``: whether its splits can be
    scanned.  ``in_spark``: Spark itself reads the table.
    """

    name: str
    columns: tuple[Column, ...]
    unique_keys: tuple[tuple[str, ...], ...] = ()
    fetch_keys: tuple[tuple[str, ...], ...] | None = None
    rows: int | None = None
    scans: bool = False
    in_spark: bool = False


@dataclass(frozen=True)
class Versions:
    """A versioned table: a row is a version of its ``key``, valid from ``valid_from`` until the next version."""

    key: tuple[str, ...]
    valid_from: str


@dataclass(frozen=True)
class Changelog:
    """A changelog: its rows are changes; the column ``change`` holds the kind of change, ``key`` identifies the row.

    ``insert_only``: no row is ever updated or deleted.
    """

    change: str
    key: tuple[str, ...]
    insert_only: bool = False


@dataclass(frozen=True)
class Declaration:
    """All declarations about one table."""

    lookup: LookupTable | None = None
    versions: Versions | None = None
    changelog: Changelog | None = None
    expired: bool = False  # the name now refers to another table


NOTHING = Declaration()
