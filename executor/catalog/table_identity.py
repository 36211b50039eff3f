"""Identifies the table behind a name, so that a declaration does not apply to the table's successor.

A view is identified by its analyzed plan, a table by its creation time.  A classic session exposes both.  Spark Connect
exposes a hash of the plan, its text, and the creation time of a table.  Where the text does not name the tables that a
view reads, declared keys of the view are ignored.

Session settings are part of an analyzed plan: Spark pads CHAR columns there, for example, and a session's cache of
tables remembers how.  So where plans differ, a copy of the session analyzes the table again under the earlier settings.

So are snapshots of tables in other catalogs: Iceberg's differ after an INSERT.  Such a table is identified by its id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dovetail.executor.catalog.measurement_cache import items, normalized_plan
from dovetail.executor.catalog.repeatable import parse_analyzed_plan
from dovetail.executor.session.batch import classic
from dovetail.executor.session.clones import clone_session
from dovetail.executor.session.requests import explanation, query_frame, rows_of
from dovetail.executor.session.settings import all_settings
from dovetail.planner.expr import quote

_TABLE = re.compile(
    r"^[\s:+\-|]*(?:RelationV2|HiveTableRelation|DataSourceV2Relation|Relation spark_catalog\.)", re.MULTILINE
)
_V2_RELATIONS = ("DataSourceV2Relation", "RelationV2")
_NAMED_TABLE = re.compile(r"^[\s:+\-|]*Relation spark_catalog\.(\w+)\.(\w+)\[", re.MULTILINE)


@dataclass(frozen=True)
class TableIdentity:
    """The identity of a table or view: an analyzed plan or its hash, and the tables that it reads.

    ``settings``: those that a classic session had when it analyzed the plan; empty on Spark Connect.
    """

    plan: Any
    tables: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)

    def is_same(self, other: TableIdentity) -> bool:
        """Whether both certainly are the same table."""
        if self.tables != other.tables:
            return False
        if isinstance(self.plan, int) or isinstance(other.plan, int):
            return bool(self.plan == other.plan)
        return bool(self.plan.sameResult(other.plan))


def is_unchanged(session: SparkSession, name: tuple[str, ...], then: TableIdentity, now: TableIdentity | None) -> bool:
    """Whether a name certainly refers to the same table as before.

    ``then`` and ``now`` are its identities; None if there is no such table now.
    """
    if now is None or now.is_same(then):
        return now is not None
    if now.tables != then.tables or not then.settings:
        return False
    try:
        plan = now.plan if now.settings == then.settings else _analyze_with(session, name, then.settings, now.settings)
        leaves = [leaf for leaf in items(then.plan.collectLeaves()) if leaf.nodeName() in _V2_RELATIONS]
        plan = _with_snapshots(session, plan, (leaf.table() for leaf in leaves))
    except (Py4JError, PySparkException):
        return False
    return TableIdentity(plan, now.tables).is_same(then)


def _with_snapshots(session: SparkSession, plan: Any, earlier: Iterator[Any]) -> Any:
    """Replace the tables of a plan, in the order of its leaves, by earlier ones of the same ids."""
    if plan.nodeName() in _V2_RELATIONS:
        table, rest = next(earlier, None), range(1, plan.productArity())
        if table is None or not _table_id(table) or _table_id(table) != _table_id(plan.table()):
            return plan
        return plan.copy(table, *(plan.productElement(n) for n in rest))
    children = [_with_snapshots(session, child, earlier) for child in items(plan.children())]
    jvm: Any = session._jvm
    return plan.withNewChildren(jvm.PythonUtils.toSeq(children)) if children else plan


def _analyze_with(
    session: SparkSession, name: tuple[str, ...], settings: dict[str, str], current: dict[str, str]
) -> Any:
    """Return the analyzed plan of a table, under other settings than the current ones of a session."""
    java = clone_session(session)
    conf = java.sessionState().conf()
    for key in current.keys() - settings.keys():
        conf.unsetConf(key)
    for key, value in settings.items() - current.items():
        conf.setConfString(key, value)
    return java.table(".".join(map(quote, name))).queryExecution().normalized()


def identity_of(session: SparkSession, name: tuple[str, ...]) -> TableIdentity | None:
    """Return the identity of the table that a name refers to now; None if unknown or if there is no such table."""
    text = ".".join(map(quote, name))
    try:
        frame = session.table(text)
        if classic(session):
            plan = normalized_plan(frame)
            return TableIdentity(plan, _tables(plan), all_settings(session))
        return TableIdentity(frame.semanticHash(), _tables_from_sql(session, text))
    except (PySparkException, Py4JError, _UnknownTables):
        return None


class _UnknownTables(Exception):
    """Spark Connect does not expose the tables that a view reads."""


def _tables(plan: Any) -> tuple[str, ...]:
    """Return the tables that a plan reads; those of Spark's own catalog with their creation times."""
    found = []
    for part in (plan, *items(plan.subqueriesAll())):
        for leaf in items(part.collectLeaves()):
            match leaf.nodeName():
                case "LogicalRelation" if leaf.catalogTable().isDefined():
                    table = leaf.catalogTable().get()
                case "HiveTableRelation":
                    table = leaf.tableMeta()
                case relation if relation in _V2_RELATIONS:
                    found.append(f"{leaf.name()} {_table_id(leaf.table())}")
                    continue
                case _:
                    continue
            found.append(f"{table.identifier().unquotedString()} {table.createTime()}")
    return tuple(sorted(found))


def _table_id(table: Any) -> str:
    """Return the permanent id of a table in another catalog, if the catalog provides one."""
    try:
        return str(table.id() or "")
    except Py4JError:
        return ""


def _tables_from_sql(session: SparkSession, text: str) -> tuple[str, ...]:
    """Return the tables that a table or view reads with their creation times, on Spark Connect.

    Raises ``_UnknownTables`` for a view over tables of other catalogs, or of names that are more than a word.
    """
    if created := _creation_time(session, text):
        return (f"{text} {created}",)
    plan = parse_analyzed_plan(explanation(session, f"SELECT * FROM {text}"))
    if plan is None:
        raise _UnknownTables
    named = _NAMED_TABLE.findall(plan)
    if len(named) != len(_TABLE.findall(plan)):
        raise _UnknownTables
    found = []
    for parts in sorted(set(named)):
        table = ".".join(map(quote, ("spark_catalog", *parts)))
        if not (created := _creation_time(session, table)):
            raise _UnknownTables
        found.append(f"{table} {created}")
    return tuple(found)


def _creation_time(session: SparkSession, text: str) -> str | None:
    """Return when a table was created; None for a view."""
    facts = {row[0]: row[1] for row in rows_of(query_frame(session, f"DESCRIBE TABLE EXTENDED {text}"))}
    return facts.get("Created Time") if facts.get("Type", "VIEW") != "VIEW" else None
