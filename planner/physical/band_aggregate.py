"""Aggregates over a band join without enumerating its pairs: running sums over sorted ends.

An interval adds itself where it begins and takes itself away where it ends, so the running sum at a point is the number
of intervals that hold it, or the sum of something over them:

    intervals        ├──────── 5 ───────┤
                             ├─── 2 ────────────┤
    running count    1       2          1       0
    running sum      5       7          2       0
    points                ·       ·        ·
    count(*) = 1 + 2 + 1,  sum(i.w) = 5 + 7 + 2,  sum(p.v * i.w) = 5·v₁ + 7·v₂ + 2·v₃

One side, the *grouped side*, keeps its rows; the other, the *summed side*, is only added up.  Where intervals are
grouped, the running sums are over points, and an interval's share is the sum at its end less the one at its beginning.

Events of equal keys are sorted together.  Without keys the line is cut into cells that are sorted apart; what the cells
before add up to comes from a small aggregate of the summed side, which is read a second time for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dovetail.planner.band.ends import Ends
from dovetail.planner.band.linear import Side
from dovetail.planner.expr import Scalar, quote, show_all
from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical.joins import EqualKey
from dovetail.planner.physical.base import Physical
from dovetail.planner.physical.presort import presort, presort_notes
from dovetail.planner.rendered import NameGenerator, Rendered
from dovetail.planner.tree import Node, plan_node
from dovetail.planner.types.schema import SqlType


@dataclass(frozen=True)
class Carried:
    """A column of the grouped side, and any value of its type."""

    text: str
    filler: str
    type: SqlType


@dataclass(frozen=True)
class Added:
    """A column of the summed side; ``running`` is the type of its running sum, or None if it is only counted."""

    text: str
    running: str | None


@dataclass(frozen=True)
class RunningTotal:
    """An aggregate of a grouped column, a summed one, their product, or of pairs; by their numbers."""

    function: Literal["count", "sum", "min", "max"]
    grouped_column: int | None
    summed_column: int | None
    type: str


@dataclass(frozen=True)
class OutputColumn:
    """An output column: its name, and the number of its column of the grouped side or of its total."""

    name: str
    source: Literal["grouped", "total"]
    number: int


@dataclass(frozen=True)
class Cells:
    """``count`` + 1 cells of the line, ``width`` wide each but for the outermost ones."""

    first: float
    width: float
    count: int


@plan_node
class RunningBandAggregate(Rendered, Physical):
    """A SELECT that aggregates a band join, computed from running sums; it replaces the whole query block.

    ``preserved``: the conditions of WHERE on the grouped side of an outer join, which preserves it; else None.
    """

    left: Node
    right: Node
    items: tuple[Scalar, ...]
    description: str
    ends: Ends
    grouped_side: Side
    keys: tuple[EqualKey, ...]
    filters: tuple[tuple[Scalar, ...], tuple[Scalar, ...]]
    carried: tuple[Carried, ...]
    added: tuple[Added, ...]
    totals: tuple[RunningTotal, ...]
    groups: tuple[int, ...] | None
    columns: tuple[OutputColumn, ...]
    having: str = ""
    order: str = ""
    cells: Cells | None = None
    names: tuple[str, ...] | None = None  # as in ``Project``
    preserved: tuple[Scalar, ...] | None = None
    presorted: bool = True  # whether rows are sorted before they are shuffled (Engine.merges_runs)

    @property
    def output(self) -> tuple[str, ...]:
        return tuple(i.shown for i in self.items) if self.names is None else self.names

    @property
    def detail(self) -> str:
        return f"{', '.join(show_all(self.items))}; {self.description}"

    @property
    def notes(self) -> tuple[str, ...]:
        summed = "intervals" if self._points_are_grouped else "points"
        where = "at the points" if self._points_are_grouped else "at both ends of the intervals"
        if self.cells is None:
            apart = "each key for itself"
        else:
            apart = f"in {self.cells.count + 1} cells of the line; {self.summed_side} side read twice"
        found = f"no pairs are made: {summed} of the {self.summed_side} side are summed up {where}"
        presorted = presort_notes(self.ends.type) if self.presorted else ()
        return found, apart, *presorted, *self._preserved_notes

    @property
    def _preserved_notes(self) -> tuple[str, ...]:
        return () if self.preserved is None else (f"every row of the {self.grouped_side} side is added once, with 0",)

    @property
    def summed_side(self) -> Side:
        return "right" if self.grouped_side == "left" else "left"

    @property
    def _points_are_grouped(self) -> bool:
        return self.ends.side == self.grouped_side

    def render(
        self, sides: tuple[str, ...], names: NameGenerator, conjunction: Callable[[tuple[Scalar, ...]], str]
    ) -> str:
        """Render the query: rows of the grouped side with their running sums, the aggregate, and the output columns."""
        name, _ = names.new("event")
        sql = Sql(self, name, names.new("end"), sides, conjunction)
        lines = [
            f"SELECT {', '.join(sql.columns())}",
            f"FROM (SELECT {', '.join(sql.aggregates()) or '1'}",
            *(self.rows(sql) if self.preserved is None else self._preserved_rows(sql, self.preserved)),
        ]
        if self.groups:
            lines.append(f"GROUP BY {', '.join(sql.carried[g] for g in self.groups)}")
            if self.preserved is None and not self._points_are_grouped:
                lines.append(f"HAVING sum({name}_sign * {sql.pairs}) > 0")
        lines[-1] += f") AS {name}"
        if self.having:
            lines.append(f"WHERE {self.having}")
        lines += [self.order] if self.order else []
        return "\n".join(lines).replace(TOTAL, f"{name}_t").replace(GROUPED, f"{name}_h")

    def _preserved_rows(self, sql: Sql, condition: tuple[Scalar, ...]) -> list[str]:
        """Render FROM: the rows that inner joins have, and every row of the grouped side without a sum."""
        sign = [] if self._points_are_grouped else [(f"{sql.name}_sign", "1L")]
        carried = [(name, c.text) for name, c in zip(sql.carried, self.carried, strict=True)]
        zeros = [(name, value) for value, name in sql.added(lambda a: ("0L", f"CAST(0 AS {a.running})"))]
        values = [*sign, *carried, (sql.pairs, "0L"), *zeros]
        side = sql.sides[0 if self.grouped_side == "left" else 1]
        where = f"\nWHERE {sql.conjunction(condition)}" if condition else ""
        return [
            f"FROM (SELECT {', '.join(name for name, _ in values)}",
            *self.rows(sql),
            f"UNION ALL\nSELECT {', '.join(value for _, value in values)}\nFROM {side}{where})",
        ]

    def rows(self, sql: Sql) -> list[str]:
        """Render FROM and WHERE: rows of the grouped side with their running sums."""
        name = sql.name
        sums = (f"sum({c}) OVER {name}_line AS {c}" for c in (sql.pairs, *sql.sums))
        over = f"PARTITION BY {', '.join(sql.parts)} ORDER BY {name}_at, {name}_rank"
        number = presort(sql.parts, f"{name}_at", self.ends.type, f"{name}_rank") if self.presorted else ""
        return [
            f"FROM (SELECT {', '.join((f'{name}_sign', *sql.carried, *sums))}",
            "FROM (" + "\nUNION ALL\n".join(sql.events()) + (number and f"\nSORT BY {number}") + ")",
            f"WINDOW {name}_line AS ({over} ROWS UNBOUNDED PRECEDING))",
            f"WHERE {name}_sign <> 0 AND {sql.pairs} > 0",
        ]


TOTAL = "__dt_total_"  # in ``having`` and ``order``, followed by the number of a total
GROUPED = "__dt_grouped_"  # the same for a grouped column


@dataclass(frozen=True)
class Sql:
    """Renders the query; every column that it adds begins with ``name``."""

    plan: RunningBandAggregate
    name: str
    end: tuple[str, str]
    sides: tuple[str, ...]
    conjunction: Callable[[tuple[Scalar, ...]], str]

    @property
    def pairs(self) -> str:
        return f"{self.name}_n"

    @property
    def carried(self) -> list[str]:
        return [f"{self.name}_h{n}" for n in range(len(self.plan.carried))]

    @property
    def sums(self) -> list[str]:
        """Render the count of non-NULL values of every summed column, and their sum."""
        return [c for n, a in enumerate(self.plan.added) for c in self._sums(n, a)]

    def _sums(self, n: int, added: Added) -> list[str]:
        return [f"{self.name}_n{n}", *([f"{self.name}_s{n}"] if added.running else [])]

    @property
    def parts(self) -> list[str]:
        if self.plan.cells:
            return [f"{self.name}_cell"]
        return [f"{self.name}_k{n}" for n in range(len(self.plan.keys))]

    def events(self) -> list[str]:
        """The three kinds of sorted rows: of the grouped side, of the summed side, and the totals of earlier cells."""
        summed = self._side(self.plan.summed_side)
        found = [self._side(self.plan.grouped_side), summed]
        if (cells := self.plan.cells) is not None:
            name, (copies, cell) = self.name, self.end
            sums = (self.pairs, *self.sums)
            before = f"SELECT {name}_cell, {', '.join(f'sum({c}) AS {c}' for c in sums)}\nFROM ({summed})"
            found.append(
                f"SELECT {cell}, CAST(NULL AS {self.plan.ends.type.sql}), 0, 0L"
                f"{''.join(f', {c.filler}' for c in self.plan.carried)}, {', '.join(sums)}\n"
                f"FROM ({before} GROUP BY {name}_cell)"
                f" JOIN LATERAL explode(sequence({name}_cell + 1, {cells.count})) AS {copies}({cell})\n"
                f"WHERE {name}_cell < {cells.count}"
            )
        return found

    def _side(self, side: Side) -> str:
        """The events of one side."""
        plan, ends, (copies, sign) = self.plan, self.plan.ends, self.end
        number = 0 if side == "left" else 1
        text = self.sides[number]
        keys = [(k.left if side == "left" else k.right, k.null_safe) for k in plan.keys]
        known = [f"{operand(key)} IS NOT NULL" for key, null_safe in keys if not null_safe]
        if side == ends.side:
            at, rank, sign = ends.point, "1", "1L"
            known.append(f"{ends.point} IS NOT NULL")
        else:
            first, last = (2 if ends.open_low else 0), (0 if ends.open_high else 2)
            text = f"{text} JOIN LATERAL explode(array(1L, -1L)) AS {copies}({sign})"
            at = f"CASE WHEN {sign} > 0 THEN {ends.low} ELSE {ends.high} END"
            rank = str(first) if first == last else f"CASE WHEN {sign} > 0 THEN {first} ELSE {last} END"
            known.append(f"{ends.low} {'<' if ends.open_low or ends.open_high else '<='} {ends.high}")
        parts = [self.cell(at)] if plan.cells else [key for key, _ in keys]
        values = [*zip(parts, self.parts, strict=True), (at, f"{self.name}_at"), (rank, f"{self.name}_rank")]
        if side == plan.grouped_side:
            share = sign if side == ends.side else f"-{sign}"
            values += [(share, f"{self.name}_sign")]
            values += list(zip((c.text for c in plan.carried), self.carried, strict=True))
            values += [("0L", self.pairs), *self.added(lambda a: ("0L", f"CAST(0 AS {a.running})"))]
        else:
            values += [("0L", f"{self.name}_sign")]
            values += list(zip((c.filler for c in plan.carried), self.carried, strict=True))
            values += [(sign, self.pairs), *self.added(lambda a: self.share(a, sign))]
        where = self.conjunction((*plan.filters[number], *(Scalar(k) for k in known)))
        return f"SELECT {', '.join(f'{v} AS {n}' for v, n in values)}\nFROM {text}\nWHERE {where}"

    @property
    def types(self) -> list[str]:
        """The types of the sums."""
        return [t for a in self.plan.added for t in ("BIGINT", *([a.running] if a.running else []))]

    def where(self, number: int, known: str) -> str:
        """The conditions on one side alone, and one that an event needs."""
        return self.conjunction((*self.plan.filters[number], Scalar(known)))

    def added(self, of: Callable[[Added], tuple[str, str]]) -> list[tuple[str, str]]:
        return [pair for n, a in enumerate(self.plan.added) for pair in zip(of(a), self._sums(n, a), strict=False)]

    @staticmethod
    def share(added: Added, sign: str) -> tuple[str, str]:
        """Return the amounts that a row of the summed side adds to the count and the sum of a column."""
        value = f"CAST({added.text} AS {added.running})"
        if sign != "1L":
            value = f"CASE WHEN {sign} > 0 THEN {value} ELSE -{value} END"
        return f"CASE WHEN {added.text} IS NOT NULL THEN {sign} ELSE 0L END", f"coalesce({value}, 0)"

    def cell(self, at: str) -> str:
        """The number of the cell of a position; it never falls as the position grows."""
        cells = self.plan.cells
        assert cells is not None
        real = real_position(at, self.plan.ends.type)
        place = f"({real} - {cells.first!r}D) / {cells.width!r}D"
        return f"CAST(floor(least(greatest({place}, 0D), {cells.count}D)) AS INT)"

    def aggregates(self) -> list[str]:
        """The expressions of every group: its columns and totals."""
        groups = [f"{self.carried[g]}" for g in dict.fromkeys(self.plan.groups or ())]
        return groups + [f"{self._total(t)} AS {self.name}_t{n}" for n, t in enumerate(self.plan.totals)]

    def _total(self, total: RunningTotal) -> str:
        if total.function in ("min", "max"):
            assert total.grouped_column is not None
            return f"{total.function}({self.carried[total.grouped_column]})"
        count = self._signed(self.pairs if total.summed_column is None else f"{self.name}_n{total.summed_column}")
        counted = count
        if total.grouped_column is not None:
            counted = f"CASE WHEN {self.carried[total.grouped_column]} IS NOT NULL THEN {count} ELSE 0L END"
        if total.function == "count":
            return f"coalesce(sum({counted}), 0L)"
        if total.grouped_column is None:
            value = self._summed(total.summed_column)
        else:
            type_ = self.plan.carried[total.grouped_column].type
            digits, scale = (type_.precision, type_.scale) if type_.name == "decimal" else (19, 0)
            value = f"CAST({self.carried[total.grouped_column]} AS DECIMAL({digits},{scale}))"
            if total.summed_column is None:
                value += f" * CAST({count} AS DECIMAL({37 - digits},0))"
            else:
                value += f" * {self._summed(total.summed_column)}"
        return f"CASE WHEN sum({counted}) > 0 THEN CAST(sum({value}) AS {total.type}) END"

    def _summed(self, column: int | None) -> str:
        """Render the running sum of a column of the summed side, in a type that holds its products."""
        assert column is not None
        running = self.plan.added[column].running or ""
        type_ = "DECIMAL(19,0)" if running == "BIGINT" else running
        return f"CAST({self._signed(f'{self.name}_s{column}')} AS {type_})"

    def _signed(self, column: str) -> str:
        """A running sum at a point, or with its sign at an end."""
        if self.plan._points_are_grouped:
            return column
        return f"CASE WHEN {self.name}_sign > 0 THEN {column} ELSE -{column} END"

    def columns(self) -> list[str]:
        """The output columns by name."""
        return [
            f"{self.name}_{'h' if c.source == 'grouped' else 't'}{c.number} AS {quote(c.name)}"
            for c in self.plan.columns
        ]


def real_position(text: str, type_: SqlType) -> str:
    """A position on the line as DOUBLE."""
    match type_.name:
        case "date":
            text = f"unix_date({text})"
        case "timestamp":
            text = f"unix_micros({text})"
        case "timestamp_ntz":
            text = f"(({text}) - TIMESTAMP_NTZ '1970-01-01 00:00:00') DIV INTERVAL '0.000001' SECOND"
    return text if type_.name == "double" else f"CAST({text} AS DOUBLE)"
