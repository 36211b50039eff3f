"""``--catalog FILE.toml``: lookups, and what is declared about tables.

    [lookup.Customers]
    kind = "postgresql"
    table = "shop.customers"
    uri_env = "CUSTOMERS_DB"

    [tables.Rates]
    versions = { key = ["currency"], from = "since" }

    [tables.Changes]
    changelog = { change = "op", key = ["id"] }

A catalog of golden plans is such a file as well; what else is in it is not for here.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import DovetailError, InputError

if TYPE_CHECKING:
    from optimizer.api import Optimizer

# What a golden plan's catalog says of a lookup that a source tells by itself.
_FOR_PLANNING = ("columns", "data", "fetch_keys", "keys", "rows", "scans")


@dataclass(frozen=True)
class CatalogFile:
    """A catalog file as read: settings of lookups, and of tables, by name."""

    path: Path
    lookups: dict[str, dict[str, Any]]
    tables: dict[str, dict[str, Any]]

    def declare(self, opt: Optimizer) -> None:
        """Register and declare all of it.  Raises ``InputError``, which names the file."""
        from planner.connectors.described import described

        for name, settings in self.lookups.items():
            with _named(self.path, "the file"):
                opt.register_lookup(name, described(name, _own(settings), self.path.parent))
        for name, settings in self.tables.items():
            with _named(self.path, f"tables.{name}"):
                if versions := settings.get("versions"):
                    opt.declare_versions(name, versions["key"], versions["from"])
                if changelog := settings.get("changelog"):
                    insert_only = bool(changelog.get("insert_only", False))
                    opt.declare_changelog(name, changelog["change"], changelog["key"], insert_only=insert_only)


class _named:  # noqa: N801 - reads as what it does
    """Errors with the file and the table they come from."""

    def __init__(self, path: Path, key: str):
        self.where = f"--catalog {path}" if key == "the file" else f"--catalog {path}: {key}"

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyError):
            raise InputError(f"{self.where}: it has no {error.args[0]!r}") from error
        if isinstance(error, DovetailError):
            raise InputError(f"{self.where}: {error}") from error


def _own(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a source, without those that a catalog of golden plans needs for planning."""
    if settings.get("kind") == "http":
        return {k: v for k, v in settings.items() if k not in ("data", "fetch_keys", "scans")}
    return {k: v for k, v in settings.items() if k not in _FOR_PLANNING}


def read_catalog(path: str | None) -> CatalogFile | None:
    """Read ``--catalog``.  Raises ``InputError`` for a file that cannot be used."""
    if path is None:
        return None
    try:
        given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"--catalog {path}: there is no such file") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"--catalog {path}: {error}") from error
    for kind in ("lookup", "tables"):
        if not isinstance(given.get(kind, {}), dict):
            raise InputError(f"--catalog {path}: {kind} is a table of tables, not {given[kind]!r}")
        for name, body in given.get(kind, {}).items():
            if not isinstance(body, dict):
                raise InputError(f"--catalog {path}: {kind}.{name} is a table of settings, not {body!r}")
    return CatalogFile(Path(path), given.get("lookup", {}), given.get("tables", {}))
