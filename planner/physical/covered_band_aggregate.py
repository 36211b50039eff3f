"""Aggregates over a band join with intervals that are pre-aggregated by bin.

A point lies in two kinds of intervals: those that begin or end in its own bin, which are compared with it, and those
that cover the whole bin, which are not compared: for each bin they are one row, with their count and their sums.

    bins         │         │         │         │
    intervals    │   ├─────────────────────┤   │
                 │      ├────────┤   │         │
    compared     │   2     │    1    │    1    │
    added up     │         │    1    │         │

What covers a bin is a running sum over bins: an interval adds itself to the bin after the one where it begins, and
takes itself away where it ends.  Bins are few, so that this costs little beside one hash join; no point is sorted.
"""

from __future__ import annotations

from dovetail.planner.physical.band_aggregate import RunningBandAggregate, Sql
from dovetail.planner.tree import plan_node


@plan_node
class CoveredBandAggregate(RunningBandAggregate):
    """A SELECT that aggregates a band join for points.

    ``hashed``: intervals and what covers bins make a small hash table; else both sides are sorted.
    """

    hashed: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        assert self.cells is not None
        bins = f"{self.cells.count + 1} bins"
        return (
            f"intervals that cover one of {bins} are added up beforehand; only those with an end in it are compared",
            f"{self.summed_side} side read twice",
            *self._preserved_notes,
        )

    def rows(self, sql: Sql) -> list[str]:
        """Render FROM: grouped rows, the totals of intervals that cover their bin, and the intervals that end in it."""
        assert self.cells is not None
        name, ends, number = sql.name, self.ends, 0 if self.grouped_side == "left" else 1
        known = sql.where(number, f"{ends.point} IS NOT NULL")
        carried = "".join(f", {c.text} AS {n}" for c, n in zip(self.carried, sql.carried, strict=True))
        grouped = (
            f"SELECT {sql.cell(ends.point)} AS {name}_at, {ends.point} AS {name}_point{carried}\n"
            f"FROM {sql.sides[number]}\nWHERE {known}"
        )
        low, high = ("<" if is_open else "<=" for is_open in (ends.open_low, ends.open_high))
        inside = f"{name}_low {low} {name}_point AND {name}_point {high} {name}_high"
        hint = f"/*+ {'SHUFFLE_HASH' if self.hashed else 'MERGE'}({name}_g) */ "
        return [
            f"FROM (SELECT {hint}{', '.join((*sql.carried, sql.pairs, *sql.sums))}",
            f"FROM ({grouped}) AS {name}_p",
            f"JOIN ({self._end_rows(sql)}\nUNION ALL\n{self._covering(sql)}) AS {name}_g",
            f"ON {name}_at = {name}_cell AND ({name}_low IS NULL OR ({inside})))",
        ]

    def _intervals(self, sql: Sql) -> str:
        """The intervals: their first and last bins, ends, and what each adds."""
        name, ends, number = sql.name, self.ends, 1 if self.grouped_side == "left" else 0
        strictly = "<" if ends.open_low or ends.open_high else "<="
        values = [
            (sql.cell(ends.low), f"{name}_first"),
            (sql.cell(ends.high), f"{name}_last"),
            (ends.low, f"{name}_low"),
            (ends.high, f"{name}_high"),
            ("1L", sql.pairs),
            *sql.added(lambda a: sql.share(a, "1L")),
        ]
        items = ", ".join(f"{value} AS {column}" for value, column in values)
        where = sql.where(number, f"{ends.low} {strictly} {ends.high}")
        return f"SELECT {items}\nFROM {sql.sides[number]}\nWHERE {where}"

    def _end_rows(self, sql: Sql) -> str:
        """A row for each bin in which an interval begins or ends."""
        name, (copies, cell) = sql.name, sql.end
        both = f"if({name}_first = {name}_last, array({name}_first), array({name}_first, {name}_last))"
        return (
            f"SELECT {cell} AS {name}_cell, {name}_low, {name}_high, {', '.join((sql.pairs, *sql.sums))}\n"
            f"FROM ({self._intervals(sql)}) JOIN LATERAL explode({both}) AS {copies}({cell})"
        )

    def _covering(self, sql: Sql) -> str:
        """A row for each bin that intervals reach over: the sums after each change hold up to the next one."""
        name, (copies, end) = sql.name, sql.end
        columns = (sql.pairs, *sql.sums)
        changes = ", ".join(f"CASE WHEN {end} > 0 THEN {c} ELSE -{c} END AS {c}" for c in columns)
        nowhere = f"CAST(NULL AS {self.ends.type.sql})"
        return (
            f"SELECT {end} AS {name}_cell, {nowhere}, {nowhere}, {', '.join(columns)}\n"
            f"FROM (SELECT {name}_cell, lead({name}_cell) OVER (ORDER BY {name}_cell) AS {name}_next, "
            f"{', '.join(f'sum({c}) OVER {name}_line AS {c}' for c in columns)}\n"
            f"FROM (SELECT {name}_cell, {', '.join(f'sum({c}) AS {c}' for c in columns)}\n"
            f"FROM (SELECT CASE WHEN {end} > 0 THEN {name}_first + 1 ELSE {name}_last END AS {name}_cell, {changes}\n"
            f"FROM ({self._intervals(sql)}) JOIN LATERAL explode(array(1, -1)) AS {copies}({end})\n"
            f"WHERE {name}_last > {name}_first + 1)\n"
            f"GROUP BY {name}_cell)\nWINDOW {name}_line AS (ORDER BY {name}_cell ROWS UNBOUNDED PRECEDING)) "
            f"JOIN LATERAL explode(sequence({name}_cell, {name}_next - 1)) AS {copies}({end})\n"
            f"WHERE {sql.pairs} > 0"
        )
