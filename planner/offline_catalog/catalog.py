"""A catalog of the tables of a file, in memory, without Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from dovetail.planner.catalog import Numbers, SequentialCatalog, Settings, UniqueKey, View
from dovetail.planner.catalog.declared import NOTHING, Declaration
from dovetail.planner.catalog.stats import UNKNOWN, Statistics
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr import quote
from dovetail.planner.expr.tokens import tokenize
from dovetail.planner.logical import Derived, Filter, Logical, Project, Scan, Sort, With, Wrapped
from dovetail.planner.offline_catalog.measured import Answer, Measured
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.types.schema import Column

_DEFAULTS = ("spark_catalog", "default")
_UNREPEATABLE = frozenset("LIMIT TABLESAMPLE RAND RANDN UUID SHUFFLE OVER".split())

Row = tuple[str | None, ...]


@dataclass(frozen=True)
class Table:
    """A table of a catalog file: ``data`` holds a few rows, a text or None for each column.

    ``watermark`` is the column that a stream's watermark is on.
    """

    name: tuple[str, ...]
    columns: tuple[Column, ...]
    keys: tuple[UniqueKey, ...] = ()
    statistics: Statistics = UNKNOWN
    data: tuple[Row, ...] = ()
    view: str = ""
    stream: bool = False
    watermark: str | None = None

    def query(self) -> str:
        """A Spark SQL query that returns the rows of ``data`` with the table's types; for a view, its own query."""
        if self.view:
            return self.view
        names = [f"c{n}" for n in range(len(self.columns))]
        rows = self.data or ((None,) * len(self.columns),)
        values = ",\n".join("  (" + ", ".join(map(_text, row)) + ")" for row in rows)
        items = ", ".join(f"{_cast(n, c)} AS {quote(c.name)}" for n, c in zip(names, self.columns, strict=True))
        empty = "" if self.data else "\nWHERE false"
        return f"SELECT {items}\nFROM VALUES\n{values}\nAS data({', '.join(names)}){empty}"


@dataclass(frozen=True, eq=False)
class CatalogFile(SequentialCatalog):
    """The tables and settings of a catalog file; a ``dovetail.planner.catalog.Catalog``, equal to itself alone."""

    path: Path
    settings: Settings
    tables: tuple[Table, ...]
    lookups: tuple[Table, ...] = ()
    declarations: tuple[tuple[tuple[str, ...], Declaration], ...] = ()
    answers: tuple[Answer, ...] = ()
    measured: list[Measured] = field(default_factory=list, repr=False)
    _named: dict[tuple[str, ...], Table] = field(init=False, repr=False, compare=False)
    _declared: dict[tuple[str, ...], Declaration] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        named = {self._full(t.name): t for t in self.tables}
        object.__setattr__(self, "_named", named)
        object.__setattr__(self, "_declared", {self._full(n): d for n, d in self.declarations})

    def table(self, name: tuple[str, ...]) -> Table | None:
        """The table of this name, which may leave out database and catalog; None when there is none."""
        return self._named.get(self._full(name))

    def columns(self, name: tuple[str, ...]) -> tuple[Column, ...] | None:
        """The columns of a table, or None when there is no such table."""
        table = self.table(name)
        return table.columns if table else None

    def keys(self, name: tuple[str, ...]) -> tuple[UniqueKey, ...]:
        """The keys of a table."""
        table = self.table(name)
        return table.keys if table else ()

    def view(self, name: tuple[str, ...]) -> View | None:
        """What a view of this file stands for: a temporary view, as all its tables without a database are."""
        table = self.table(name)
        if table is None or not table.view:
            return None
        temporary = tuple(t.name for t in self.tables if len(t.name) == 1)
        return View(table.view, tuple(c.name for c in table.columns), _DEFAULTS, temporary)

    def declaration(self, name: tuple[str, ...]) -> Declaration:
        """What the file declares about a table."""
        return self._declared.get(self._full(name), NOTHING)

    def declared_names(self) -> tuple[tuple[str, ...], ...]:
        """The names of all tables of which the file declares something."""
        return tuple(name for name, _ in self.declarations)

    def changed_setting(self, view: View) -> str | None:
        """None: views are made under the settings of the file."""
        return None

    def schema(self, query: str) -> tuple[Column, ...] | None:
        """None: only Spark knows the types of what a query computes."""
        return None

    def statistics(self, relation: str) -> Statistics:
        """The statistics of the one table that a query reads, filtered or not; unknown for any other query."""
        try:
            plan, _ = from_sql(relation)
        except Unsupported:
            return UNKNOWN
        definitions = {d.key: d.query for d in plan.definitions} if isinstance(plan, With) else {}
        return self._statistics(plan, definitions)

    def measure(self, query: str) -> tuple[Numbers, ...] | None:
        """The answer that the file has for a query, which is then among ``measured``; None where it has none."""
        found = next((a for a in self.answers if a.matches(query)), None)
        if found is None:
            return None
        self.measured.append(Measured(query, found.rows))
        return found.rows

    def streams(self, query: str, *others: str) -> int:
        """How many tables of a query are streams."""
        try:
            plan, _ = from_sql(query)
        except Unsupported:
            return 0
        tables = (self.table(n.name) for n in plan.walk() if isinstance(n, Scan) and not n.cte)
        return sum(t.stream for t in tables if t)

    def nonrepeatable_reason(self, query: str) -> str | None:
        """Why the query might return other rows when it is read twice: what it does, since tables stay as they are."""
        if self.streams(query):
            return "StreamingRelation may return other rows when it is read twice"
        words = {t.word for t in tokenize(query).items}
        found = sorted(words & _UNREPEATABLE)
        return f"{found[0]} may return other rows when it is read twice" if found else None

    def _statistics(self, plan: Logical, definitions: dict[str, Logical]) -> Statistics:
        match plan:
            case Scan() if plan.cte:
                return self._statistics(definitions[plan.cte], definitions) if plan.cte in definitions else UNKNOWN
            case Scan():
                table = self.table(plan.name)
                return table.statistics if table and plan.plain else UNKNOWN
            case Derived():
                return self._statistics(plan.query, definitions)
            case Project() if plan.quantifier.upper() != "DISTINCT" and all(_plain(i.text) for i in plan.items):
                return self._statistics(plan.child, definitions)
            case With() | Wrapped() | Sort():
                return self._statistics(plan.child, definitions)
            case Filter() if plan.clause == "WHERE":
                return self._statistics(plan.child, definitions)
        return UNKNOWN

    def _full(self, name: tuple[str, ...]) -> tuple[str, ...]:
        full = (*_DEFAULTS[: max(0, 3 - len(name))], *name)
        return self.table_key(full)


def _plain(item: str) -> bool:
    """Whether an item of a select list is ``*`` or a column: neither changes the number of rows."""
    return bool(re.fullmatch(r"\*|`?\w+`?(\s*\.\s*`?\w+`?)*(\s*\.\s*\*)?", item))


def _text(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _cast(name: str, column: Column) -> str:
    if column.type is not None and column.type.name in ("array", "map", "struct"):
        return f"from_json({name}, {_text(column.type.text)})"
    return f"CAST({name} AS {column.type.sql if column.type else 'STRING'})"
