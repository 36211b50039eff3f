"""What a name means now, to tell later whether it still does: a promise about a table is not one about its successor.

A view means its analysed plan, a table the one that was made at its time.  A classic session tells both.  Spark Connect
tells a hash of the plan, and when a table was made, but not what tables a view reads: a key of such a view does not
count there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from planner.expr import quote
from planner.runtime.batch import classic
from planner.runtime.measurement_cache import items, meaning

_TABLE = re.compile(
    r"^[\s:+\-|]*(?:RelationV2|HiveTableRelation|DataSourceV2Relation|Relation spark_catalog\.)", re.MULTILINE
)


@dataclass(frozen=True)
class Meaning:
    """What a name meant: an analysed plan, or its hash, and which tables it read."""

    plan: Any
    tables: tuple[str, ...]

    def same(self, other: Meaning) -> bool:
        """Whether both are certainly the same."""
        if self.tables != other.tables:
            return False
        if isinstance(self.plan, int) or isinstance(other.plan, int):
            return bool(self.plan == other.plan)
        return bool(self.plan.sameResult(other.plan))


def meant(session: SparkSession, name: tuple[str, ...]) -> Meaning | None:
    """What a name means now; None where that cannot be told, or there is no such table."""
    text = ".".join(map(quote, name))
    try:
        frame = session.table(text)
        if classic(session):
            plan = meaning(frame)
            return Meaning(plan, _tables(plan))
        return Meaning(frame.semanticHash(), _told(session, text))
    except (PySparkException, Py4JError, _Untold):
        return None


class _Untold(Exception):
    """Spark Connect does not tell which tables a view reads."""


def _tables(plan: Any) -> tuple[str, ...]:
    """The tables that a plan reads, those of Spark's own catalog with the time at which each was made."""
    found = []
    for part in (plan, *items(plan.subqueriesAll())):
        for leaf in items(part.collectLeaves()):
            match leaf.nodeName():
                case "LogicalRelation" if leaf.catalogTable().isDefined():
                    table = leaf.catalogTable().get()
                case "HiveTableRelation":
                    table = leaf.tableMeta()
                case "DataSourceV2Relation" | "RelationV2":
                    found.append(f"{leaf.name()} {_number(leaf.table())}")
                    continue
                case _:
                    continue
            found.append(f"{table.identifier().unquotedString()} {table.createTime()}")
    return tuple(sorted(found))


def _number(table: Any) -> str:
    """The number that a table of another catalog has for its life, where the catalog gives one."""
    try:
        return str(table.id())
    except Py4JError:
        return ""


def _told(session: SparkSession, text: str) -> tuple[str, ...]:
    """When a table was made, as Spark Connect tells it.  Raises ``_Untold`` for a view over tables."""
    told = {str(row[0]): str(row[1]) for row in session.sql(f"DESCRIBE TABLE EXTENDED {text}").collect()}
    if told.get("Type", "VIEW") != "VIEW" and "Created Time" in told:
        return (f"{text} {told['Created Time']}",)
    (row,) = session.sql(f"EXPLAIN EXTENDED SELECT * FROM {text}").collect()
    if _TABLE.search(str(row[0])):
        raise _Untold
    return ()
