"""Resolves table names, and reads the key constraints of a table's catalog."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dovetail.executor.session.requests import query_frame, rows_of
from dovetail.executor.session.settings import SessionSettings, name_case
from dovetail.planner.catalog import UniqueKey
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr.tokens import tokenize

_OWN = "spark_catalog"
_HEADING = "# Constraints"
_UNIQUE = re.compile(r"(?:PRIMARY KEY|UNIQUE)\s*\((.*)\)\s*(.*)", re.IGNORECASE | re.DOTALL)


def identity(
    session: SparkSession, name: tuple[str, ...], settings: SessionSettings | None = None
) -> tuple[str, ...] | None:
    """Return the full name of the table that a name refers to now, or None; one part for a temporary view.

    ``settings``: those of the session, if they have been read.  Names in Spark's own catalog are in lower case unless
    the session is case-sensitive; other catalogs may be case-sensitive in any session.
    """
    try:
        found = session.catalog.getTable(".".join(map(_quoted, name)))
    except PySparkException:
        return None
    if found.isTemporary:  # a global one has a namespace
        full = (*(found.namespace or ()), found.name)
    else:
        full = (found.catalog or _OWN, *(found.namespace or ()), found.name)
    settings = settings or SessionSettings(session)
    own = found.isTemporary or (full[0] == _OWN and settings.has_spark_catalog)
    return name_case(settings.values).folded(full) if own else full


def catalog_keys(session: SparkSession, table: tuple[str, ...], settings: SessionSettings) -> tuple[UniqueKey, ...]:
    """Return the keys in a table's catalog; ``table`` is the result of ``identity``.

    Spark's own catalog has no constraints, unless another catalog replaces it.
    """
    if len(table) < 3 or (table[0] == _OWN and settings.has_spark_catalog):
        return ()
    try:
        rows = rows_of(query_frame(session, f"DESCRIBE TABLE EXTENDED {'.'.join(map(_quoted, table))}"))
    except PySparkException:
        return ()
    return parse_constraints(rows)


def parse_constraints(rows: Iterable[tuple[Any, ...]]) -> tuple[UniqueKey, ...]:
    """Parse the keys in the constraints of DESCRIBE TABLE EXTENDED, such as ``PRIMARY KEY (id) NOT ENFORCED RELY``.

    A constraint without ENFORCED is informational.
    """
    found: list[UniqueKey] = []
    inside = False
    for name, text, *_ in rows:
        if not name or name.startswith("#"):
            inside = name == _HEADING
        elif inside and (key := _UNIQUE.fullmatch((text or "").strip())) and (columns := _names(key[1])):
            words = key[2].upper().split()
            found.append(UniqueKey(columns, "ENFORCED" in words and "NOT" not in words))
    return tuple(found)


def _names(text: str) -> tuple[str, ...]:
    """Parse a list of column names; empty if one of them is a nested field."""
    try:
        items = tokenize(text).items
    except Unsupported:
        return ()
    names, commas = items[::2], items[1::2]
    return tuple(n.text for n in names) if len(commas) == len(names) - 1 and all(c.word == "," for c in commas) else ()


def _quoted(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"
