"""Which table a name means, and the keys that its catalog tells: Spark's own catalog has none, others may."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from planner.catalog import UniqueKey
from planner.errors import Unsupported
from planner.expr.tokens import tokenize

Declared = Mapping[tuple[str, ...], tuple[UniqueKey, ...]]

_OWN = "spark_catalog"
_HEADING = "# Constraints"
_UNIQUE = re.compile(r"(?:PRIMARY KEY|UNIQUE)\s*\((.*)\)\s*(.*)", re.IGNORECASE | re.DOTALL)


def identity(session: SparkSession, name: tuple[str, ...]) -> tuple[str, ...] | None:
    """The full name of the table that a name means now, of one part for a temporary view; None when there is none.

    Names in Spark's own catalog are in small letters unless the session tells letters apart; other catalogs may do so
    whatever the session does.
    """
    try:
        found = session.catalog.getTable(".".join(map(_quoted, name)))
    except PySparkException:
        return None
    if found.isTemporary:  # a global one has a namespace
        full = (*(found.namespace or ()), found.name)
    else:
        full = (found.catalog or _OWN, *(found.namespace or ()), found.name)
    exact = (session.conf.get("spark.sql.caseSensitive") or "false").lower() == "true"
    own = found.isTemporary or (full[0] == _OWN and not session.conf.get(f"spark.sql.catalog.{_OWN}", None))
    return full if exact or not own else tuple(part.lower() for part in full)


def told(session: SparkSession, table: tuple[str, ...]) -> tuple[UniqueKey, ...]:
    """The keys that a table's catalog tells Spark; ``table`` is what ``identity`` returns.

    Spark's own catalog takes no constraints, unless another one stands in for it.
    """
    if len(table) < 3 or (table[0] == _OWN and not session.conf.get(f"spark.sql.catalog.{_OWN}", None)):
        return ()
    try:
        rows = session.sql(f"DESCRIBE TABLE EXTENDED {'.'.join(map(_quoted, table))}").collect()
    except PySparkException:
        return ()
    return read_constraints(tuple(row) for row in rows)


def read_constraints(rows: Iterable[tuple[Any, ...]]) -> tuple[UniqueKey, ...]:
    """The keys among the constraints of DESCRIBE TABLE EXTENDED: a name, then ``PRIMARY KEY (id) NOT ENFORCED RELY``.

    A constraint that does not say that it is enforced is informational.
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
    """Names with commas between them; nothing where one of them is a field of a column."""
    try:
        items = tokenize(text).items
    except Unsupported:
        return ()
    names, commas = items[::2], items[1::2]
    return tuple(n.text for n in names) if len(commas) == len(names) - 1 and all(c.word == "," for c in commas) else ()


def _quoted(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"
