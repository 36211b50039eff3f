"""The candidates for the nearest right row of a left row, in the sort of both sides, and the choice between them.

``lag(…, n) IGNORE NULLS`` is the n-th of the last right rows, and ``lead`` of the next ones; Spark computes either in
one pass, where a frame that ends at UNBOUNDED FOLLOWING would be quadratic.

The k least distant rows are among the last k rows and the next k.  Both are sorted by distance, so either the i-th last
row is one of them or the (k - i + 1)-th next row is, whichever is less distant.  Where further sort keys decide between
equal distances, the row that they take comes last among the rows of one time before a left row, and first among those
after it, so each has a sort of its own; a left row without a time gets the first rows by these keys alone.  The ties
of a row and the next are compared where one row is chosen here.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical.nearest_join import Nearest, TieBreak
from dovetail.planner.types.schema import SqlType


@dataclass(frozen=True)
class Candidates:
    """The candidates as SQL over the columns of a ``NearestUnion``, which begin with ``name``."""

    nearest: Nearest
    name: str
    row_type: SqlType | None = None

    @property
    def ties(self) -> list[str]:
        """The columns of the further sort keys."""
        return [f"{self.name}_t{n}" for n in range(len(self.nearest.ties))]

    def windows(self, partition: list[str]) -> list[str]:
        """The last right rows so far; where both directions count, the next ones, and the first ones of all.

        Behind these the first ones by the ties alone, for a left row that is equally near to all.
        """
        parts = f"PARTITION BY {', '.join(partition)} " if partition else ""
        way = "DESC" if self.nearest.direction == "forward" else "ASC"
        order = [f"{parts}ORDER BY {self.name}_at {way} NULLS FIRST", f"{self.name}_side"]
        near, each = f"{self.name}_near", range(1, self.nearest.count + 1)
        found = [f"lag({near}, {n}) IGNORE NULLS OVER ({', '.join([*order, *self.sorted_ties()])})" for n in each]
        if self.nearest.direction != "both":
            return found
        first = self.sorted_ties(first=True)
        window = ", ".join([*order, *first])
        found += [f"lead({near}, {n}) IGNORE NULLS OVER ({window})" for n in each]
        if self.nearest.nulls_first:
            found += [f"nth_value({near}, {n}) IGNORE NULLS OVER ({window} ROWS UNBOUNDED PRECEDING)" for n in each]
        if first:
            window = f"{parts}ORDER BY {', '.join(first)} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
            found += [f"nth_value({near}, {n}) IGNORE NULLS OVER ({window})" for n in each]
        return found

    def sorted_ties(self, *, first: bool = False) -> list[str]:
        """How right rows of one time are sorted, the one that is needed last, or ``first``."""
        ways = [(tie.descending != first, tie.nulls_first != first) for tie in self.nearest.ties]
        return [
            f"{name} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"
            for name, (descending, nulls_first) in zip(self.ties, ways, strict=True)
        ]

    def nearest_one(self, columns: list[str]) -> str:
        """The least distant one of the candidates, the first by the ties of those that are equally near."""
        at = f"{self.name}_at"
        (last,), (ahead,), first, tied = self.by_kind(columns)
        (nearer,) = self.nearer([last, ahead])
        cases = [f"WHEN {at} IS NULL THEN {c}" for c in tied]
        cases += [f"WHEN {at} IS NOT NULL AND {c} IS NOT NULL AND {c}.at IS NULL THEN {c}" for c in first]
        if tied:
            equal = f"{self.difference(at, f'{ahead}.at')} = {self.difference(f'{last}.at', at)}"
            precedes = _precedes(ahead, last, self.nearest.ties)
            cases.append(f"WHEN {equal} THEN CASE WHEN {precedes} THEN {ahead} ELSE {last} END")
        if not any(c.text == f"{operand(self.nearest.times[1])} IS NOT NULL" for c in self.nearest.filters[1]):
            cases.append(f"WHEN {last}.at IS NULL THEN coalesce({ahead}, {last})")
        return f"CASE {' '.join(cases)} ELSE {nearer} END" if cases else nearer

    def nearer(self, columns: list[str]) -> list[str]:
        """As many of the candidates as are wanted, the least distant ones.

        An infinite left value is sorted as the least or the greatest finite one.  There the same
        infinity, whose distance is NaN, is the farthest: of two equal distances the one toward zero counts.
        """
        at, count = f"{self.name}_at", self.nearest.count
        approximate = self.nearest.time_type is not None and self.nearest.time_type.approximate
        found = []
        for last, ahead in zip(columns[:count], reversed(columns[count:]), strict=True):
            behind, before = self.difference(f"{last}.at", at), self.difference(at, f"{ahead}.at")
            tie = f" OR {at} < 0 AND {before} <= {behind}" if approximate else ""
            found.append(f"CASE WHEN {last} IS NULL OR {before} < {behind}{tie} THEN {ahead} ELSE {last} END")
        return found

    def by_kind(self, columns: list[str]) -> tuple[list[str], list[str], list[str], list[str]]:
        """The candidates: the last ones, the next ones, the first ones of all, and the first ones by the ties alone."""
        count, ties = self.nearest.count, self.nearest.count if self.nearest.ties else 0
        rest = columns[2 * count :]
        return columns[:count], columns[count : 2 * count], rest[: len(rest) - ties], rest[len(rest) - ties :]

    def prune(self, columns: list[str]) -> list[str]:
        """The candidates; of those on either side none that is farther away than as many others as are wanted.

        Right rows without a time are among the first ones of all alone, and to a left row without one all are equally
        near.
        """
        if self.nearest.complete:
            return self.nearer(columns)
        at = f"{self.name}_at"
        last, ahead, first, tied = self.by_kind(columns)
        if ahead and self.nearest.difference:
            behind = [self.difference(f"{c}.at", at) for c in last]
            before = [self.difference(at, f"{c}.at") for c in ahead]
            last, ahead = (
                [
                    f"CASE WHEN {other} < {own} THEN NULL ELSE {c} END"
                    for c, own, other in zip(side, distances, reversed(others), strict=True)
                ]
                for side, distances, others in ((last, behind, before), (ahead, before, behind))
            )
        if first:
            last = [
                f"CASE WHEN {c}.at IS NOT NULL OR {at} IS NULL THEN {own} END"
                for c, own in zip(columns, last, strict=False)
            ]
        if tied:
            last, ahead = ([f"CASE WHEN {at} IS NOT NULL THEN {c} END" for c in side] for side in (last, ahead))
        first = [f"CASE WHEN {c}.at IS NULL AND {at} IS NOT NULL THEN {c} END" for c in first]
        return [*last, *ahead, *first, *(f"CASE WHEN {at} IS NULL THEN {c} END" for c in tied)]

    def difference(self, earlier: str, later: str) -> str:
        """How far a position is from an earlier one; NULL where that overflows, so that nothing raises.

        NEAREST BY subtracts the times of every pair, so one of TIMESTAMP_NTZ raises here where it raises in Spark.
        """
        if not self.nearest.difference:
            return f"({later} - {earlier})"
        if self.nearest.difference == "date":
            return f"datediff({later}, {earlier})"
        if self.nearest.difference == "timestamp":
            earlier, later = f"unix_micros({earlier})", f"unix_micros({later})"
        of = self.nearest.time_type
        if self.row_type and of and of.fractional:
            return f"({later} - {earlier})"  # its try_subtract takes whole numbers alone; others do not overflow
        return f"try_subtract({later}, {earlier})"


def _precedes(one: str, other: str, ties: tuple[TieBreak, ...]) -> str:
    """The condition that a right row comes before another by its ties, of which the last row is the nearest."""
    text = ""
    for n, tie in reversed(list(enumerate(ties))):
        a, b = f"{one}.t{n}", f"{other}.t{n}"
        null, known = (b, a) if tie.nulls_first else (a, b)
        before = f"{a} {'<' if tie.descending else '>'} {b} OR ({null} IS NULL AND {known} IS NOT NULL)"
        text = f"{before} OR ({a} <=> {b} AND ({text}))" if text else before
    return text
