"""Plans the statements of a workload: against the tables of a catalog file without Spark, or on a session."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot.errors import SqlglotError

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.lookups import make_missing_time_error
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.bind.names import Resolver
from dovetail.planner.catalog import Catalog
from dovetail.planner.errors import QueryError, Unsupported
from dovetail.planner.expr.tokens import tokenize
from dovetail.planner.logical import Cte, Logical, Scan
from dovetail.planner.offline_catalog.catalog import CatalogFile, Table
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.sql.whole_statement import Unread, parsed, without_nearest_clauses
from dovetail.planner.types.schema import Column
from dovetail.rules.analysis.missing_columns import find_missing_columns
from dovetail.rules.analysis.nested_loops import NestedLoop, find_nested_loops

if TYPE_CHECKING:
    from dovetail.optimizer.api import Optimizer
    from dovetail.optimizer.verification import Verification


_DECLARES = re.compile(r"(?i)\s*(DECLARE|BEGIN)\b")
"""Statements after which a name may be a variable."""


_WINDOW_CALL = re.compile(r"(?i)\bwindow(?=\s*\()")
"""Spark's function of time windows, whose name sqlglot reads as the clause."""


class WorkloadPlanner(ABC):
    """Plans statements and finds their nested loops; ``description``: against what."""

    description: str

    @property
    @abstractmethod
    def catalog(self) -> Catalog:
        """The tables that statements read."""

    @abstractmethod
    def plan(self, text: str) -> Plan:
        """Plan a statement.  Raises ``QueryError``, or what Spark raises, for one that cannot run."""

    def explained(self, text: str) -> Plan:
        """Plan a statement to explain it: one that Spark cannot analyze has Spark's error as ``rejection``."""
        return self.plan(text)

    @abstractmethod
    def run_command(self, text: str) -> None:
        """Run a statement that changes the session."""

    def nested_loops(self, plan: Plan) -> tuple[NestedLoop, ...]:
        """The nested loops of the statement as written."""
        return find_nested_loops(plan.logical, self.catalog) if plan.logical else ()

    def remaining_loops(self, plan: Plan, written: tuple[NestedLoop, ...]) -> tuple[NestedLoop, ...]:
        """The nested loops of its rewriting, or those as ``written`` if it is not rewritten."""
        if plan.rewriting is None:
            return written
        try:
            logical, _ = from_sql(plan.rewriting)
        except Unsupported:
            return ()
        return find_nested_loops(logical, self.catalog)

    @abstractmethod
    def add_relation(self, name: str, plan: Plan) -> None:
        """Let later statements read what a statement creates under a name."""

    def verify(self, text: str) -> Verification:
        """Run a statement both ways, and compare the rows."""
        raise NotImplementedError("verification needs Spark")


class OfflinePlanner(WorkloadPlanner):
    """Plans against the tables that a catalog file declares, and those that earlier statements create."""

    def __init__(self, catalog: CatalogFile, options: Options):
        self._catalog = catalog
        self.options = options
        self.description = catalog.path.name
        self._has_variables = False

    @property
    def catalog(self) -> CatalogFile:
        return self._catalog

    def plan(self, text: str) -> Plan:
        """Plan a statement.  Raises ``QueryError`` for a table or column that is not declared, or for wrong syntax."""
        plan = plan_sql(text, self.catalog, self.options)
        self._has_variables |= bool(_DECLARES.match(text))
        if plan.error:
            raise plan.error
        if plan.logical is None:
            return plan
        if error := make_missing_time_error(plan.logical, self.catalog):
            raise error
        self._check_tables(plan)
        try:
            parsed(_WINDOW_CALL.sub("windows", without_nearest_clauses(plan.query)))
        except Unread as unread:
            if isinstance(unread.__cause__, SqlglotError):
                raise QueryError(f"The query cannot be parsed: {_plain(str(unread))}") from unread
        if not self._has_variables:
            for column, place in find_missing_columns(plan.logical, self.catalog):
                raise QueryError(
                    f"There is no column {column.text}. Correct the name, or declare the column in the catalog.", place
                )
        return plan

    def run_command(self, text: str) -> None:
        """Do nothing: a catalog has its own settings."""

    def _check_tables(self, plan: Plan) -> None:
        assert plan.logical is not None
        names = Resolver(self.catalog, {})
        for scan in plan.logical.walk():
            if not isinstance(scan, Scan) or scan.cte or names.lookup(scan):
                continue
            if self.catalog.columns(scan.name) is None:
                place = tokenize(plan.text).place(_offset(plan.text, scan.text))
                name = ".".join(scan.name)
                raise QueryError(f"There is no table {name}. Declare it under [tables.{name}] in the catalog.", place)

    def add_relation(self, name: str, plan: Plan) -> None:
        """Declare a table with the columns of a query."""
        columns = _columns(plan.logical, self.catalog)
        if columns:
            parts = tuple(t.text for t in tokenize(name).items if t.word != ".")
            others = tuple(t for t in self.catalog.tables if t.name != parts)
            self._catalog = replace(self.catalog, tables=(*others, Table(parts, columns)))


class SessionWorkloadPlanner(WorkloadPlanner):
    """Plans on a session; a nested loop is reported only if Spark's own plan has one.

    ``measure``: ``verify`` runs each way once more, and measures it.
    """

    description = "Spark"

    def __init__(self, opt: Optimizer, *, measure: bool = False):
        self.opt = opt
        self.measure = measure

    @property
    def catalog(self) -> Catalog:
        from dovetail.executor.catalog.spark_catalog import SparkCatalog

        return SparkCatalog(self.opt.session)

    def plan(self, text: str) -> Plan:
        """Plan a statement.  Raises what Spark raises for one that it cannot analyze."""
        from dovetail.executor.session.physical_plan import check_query

        plan = self.opt.plan(text)
        if plan.logical is not None and not plan.required:
            check_query(self.opt.session, plan.query)
        return plan

    def explained(self, text: str) -> Plan:
        return self.opt.plan(text)

    def run_command(self, text: str) -> None:
        self.opt.session.sql(text)

    def nested_loops(self, plan: Plan) -> tuple[NestedLoop, ...]:
        """The nested loops of the statement as written, unless Spark's plan has none."""
        from dovetail.executor.session.physical_plan import count_nested_loops

        if plan.required:  # Spark cannot run a statement with lookups as written
            return ()
        found = super().nested_loops(plan)
        return found if found and count_nested_loops(self.opt.session, plan.query) else ()

    def add_relation(self, name: str, plan: Plan) -> None:
        """Make a query a temporary view of the session."""
        from dovetail.executor.session.physical_plan import create_temporary_view

        parts = [t.text for t in tokenize(name).items if t.word != "."]
        if len(parts) == 1:
            create_temporary_view(self.opt.session, parts[0], plan.query)

    def verify(self, text: str) -> Verification:
        return self.opt.verify(text, measure=self.measure)


def created_name(plan: Plan) -> str:
    """The name of the view or table that a statement creates; empty if it creates none."""
    if not plan.statement:
        return ""
    t = tokenize(plan.text)  # a prefix alone may end inside brackets: MERGE … USING (
    words = [t[i].word for i in range(len(t))]
    at = next((i for i, word in enumerate(words) if word in ("VIEW", "TABLE")), None)
    if at is None or not {"CREATE", "CACHE"} & set(words[:at]):
        return ""
    at += 4 if words[at + 1 : at + 4] == ["IF", "NOT", "EXISTS"] else 1
    end = at + 1
    while end + 1 < len(t) and t[end].word == ".":
        end += 2
    return t.slice(at, end)


def _columns(query: Logical | None, catalog: CatalogFile) -> tuple[Column, ...] | None:
    if query is None:
        return None
    names = Resolver(catalog, {node.key: node for node in query.walk() if isinstance(node, Cte)})
    columns = names.columns(query.children[0] if getattr(query, "prefix", "") else query)  # type: ignore[arg-type]
    return columns if columns and all(c.name for c in columns) else None


def _plain(message: str) -> str:
    """A message without the control sequences of a terminal."""
    return re.sub(r"\x1b\[[0-9;]*m", "", message)


def _offset(text: str, name: str) -> int:
    found = re.search(rf"(?<![\w.`]){re.escape(name)}(?![\w`])", text)
    return found.start() if found else 0
