"""Reads the definitions of tables and views on Spark Connect.

``DESCRIBE … AS JSON`` has the columns of a table.  It has the text of a view, but not all settings of the session that
made it.  So Spark compares: the text counts only if it is now the same query as the view.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dovetail.executor.catalog.keys import identity
from dovetail.executor.session.requests import query_frame, rows_of
from dovetail.planner.catalog import View
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr import quote
from dovetail.planner.logical import Scan
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.types.schema import Column, sql_type

_OWN = "spark_catalog"
_TYPES = frozenset("boolean tinyint smallint int bigint float double date timestamp_ltz timestamp_ntz binary".split())


def describe_on_connect(session: SparkSession, name: tuple[str, ...]) -> dict[str, Any]:
    """What Spark's own catalog has of a relation, by name; empty where it has none."""
    quoted = ".".join(map(quote, name))
    try:
        found = json.loads(rows_of(query_frame(session, f"DESCRIBE TABLE EXTENDED {quoted} AS JSON"))[0][0])
        return found if isinstance(found, dict) else {}
    except (PySparkException, ValueError, LookupError):
        return {}


def described_columns(facts: dict[str, Any]) -> tuple[Column, ...] | None:
    """The columns of a described table, None without any; of a text, which may be CHAR, and others without the type."""
    found = []
    for column in facts.get("columns", ()):
        type_ = column["type"]
        text = type_["name"]
        if text == "decimal":
            text = f"decimal({type_['precision']},{type_['scale']})"
        elif text not in _TYPES:
            text = ""
        found.append(Column(column["name"], sql_type(text) if text else None))
    return tuple(found) or None


def find_view_on_connect(session: SparkSession, name: tuple[str, ...], facts: dict[str, Any]) -> View | None:
    """Return the definition of a described view in Spark's own catalog; None for other relations and meanings."""
    quoted = ".".join(map(quote, name))
    try:
        text = facts.get("view_text")
        if facts.get("type") != "VIEW" or not text:
            return None
        query = query_frame(session, text)
        if session.catalog.currentCatalog() != _OWN or not session.table(quoted).sameSemantics(query):
            return None
        return View(text, tuple(query.columns), (_OWN, session.catalog.currentDatabase()), _temporary(session, text))
    except (PySparkException, Unsupported, ValueError, LookupError):
        return None


def _temporary(session: SparkSession, text: str) -> tuple[tuple[str, ...], ...]:
    """The temporary views that a query names."""
    plan, _ = from_sql(text)
    names = {n.name for n in plan.walk() if isinstance(n, Scan) and not n.cte and len(n.name) == 1}
    return tuple(sorted(name for name in names if len(identity(session, name) or ("", "")) == 1))
