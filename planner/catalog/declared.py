"""What a user declares about a table beyond its columns: that it is a lookup, keeps versions, or is a changelog."""

from __future__ import annotations

from dataclasses import dataclass

from planner.types.schema import Column


@dataclass(frozen=True)
class LookupTable:
    """A table that lives elsewhere: what planning asks of its ``LookupSource``; ``rows`` is None where unknown.

    ``fetch_keys``: sets of columns that rows can be fetched by, None for any.  ``scans``: whether its shares can be
    read whole.
    """

    name: str
    columns: tuple[Column, ...]
    unique_keys: tuple[tuple[str, ...], ...] = ()
    fetch_keys: tuple[tuple[str, ...], ...] | None = None
    rows: int | None = None
    scans: bool = False


@dataclass(frozen=True)
class Versions:
    """A row of the table is one version of its ``key``, valid from ``valid_from`` to where the next one begins."""

    key: tuple[str, ...]
    valid_from: str


@dataclass(frozen=True)
class Changelog:
    """The rows of the table are changes: ``change`` says of which kind each is, ``key`` of which row.

    ``insert_only``: no row is ever updated or deleted.
    """

    change: str
    key: tuple[str, ...]
    insert_only: bool = False


@dataclass(frozen=True)
class Declaration:
    """All that is declared about one table."""

    lookup: LookupTable | None = None
    versions: Versions | None = None
    changelog: Changelog | None = None
    lapsed: bool = False  # the name means another table than it did then


NOTHING = Declaration()
