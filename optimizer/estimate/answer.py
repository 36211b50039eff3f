"""An answer of an estimate: the groups with their intervals, and what these mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from math import inf, isfinite, log
from typing import TYPE_CHECKING, Any, NamedTuple

from dovetail.planner.errors import plural
from dovetail.planner.estimate.clusters import Interval

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


SHOWN = 20  # groups
_MISSED = 0.05  # the probability with which no sampled row is of a group with as many rows as in the note


@dataclass(frozen=True)
class EstimatedRow:
    """A row of the result: an ``Interval`` in the columns of aggregates, a value or NULL in the others.

    ``sampled_rows``: the rows of the group in the sample, before they are aggregated; None in the exact answer.
    ``certified``: the sample has enough rows of the group for its intervals to hold with the confidence.
    """

    values: tuple[Any, ...]
    sampled_rows: int | None
    certified: bool

    @property
    def group(self) -> str:
        """The values of the group as text."""
        return ", ".join(str(value) for value in self.values if not isinstance(value, Interval))


@dataclass(frozen=True)
class Answer:
    """The result of a statement as far as it is known.

    ``exact``: all rows are read, and the intervals have no width.  ``share``: the part of the relation ``sampled`` that
    is read.  ``confidence``: the probability with which an interval holds the exact value, over all answers together.
    ``widest``: the greatest half width of a certified interval, relative to its estimate.  ``seconds``: since the
    estimate began.  ``seed`` repeats the sample.  ``reason``: why this answer is the last one, or why the next one is
    exact; else empty.  ``postponed``: clauses that only the exact answer obeys.  ``earlier``: the answers before it.
    """

    rows: tuple[EstimatedRow, ...]
    exact: bool
    share: float
    sampled: str
    confidence: float
    widest: float
    seconds: float
    seed: int
    reason: str
    postponed: tuple[str, ...]
    schema: StructType = field(repr=False)
    aggregates: tuple[int, ...] = field(repr=False)
    session: SparkSession = field(repr=False)
    earlier: tuple[Answer, ...] = field(default=(), repr=False)

    @property
    def certified(self) -> bool:
        """Whether the intervals of all groups are certified, and there is one."""
        return self.exact or (bool(self.rows) and all(row.certified for row in self.rows))

    def dataframe(self) -> DataFrame:
        """The rows as a DataFrame with the columns of the statement, in their types.

        Behind each aggregate follow ``<name>_low`` and ``<name>_high``, of type DOUBLE, and at the end ``sampled_rows``
        and ``certified``.
        """
        from dovetail.executor.session.estimated_rows import estimated_frame

        rows = [(row.values, row.sampled_rows, row.certified) for row in self.rows]
        return estimated_frame(self.session, self.schema, self.aggregates, rows)

    def describe(self) -> str:
        """What the intervals mean: a line, and one for each reservation."""
        if self.exact:
            return "\n".join(filter(None, (f"Exact, from all rows; {self.seconds:.1f} s", self.reason)))
        width = f"± {self.widest * 100:.2g} % or less" if self.widest < inf else "none certified yet"
        meaning = (
            f"Intervals of {self.confidence * 100:.4g} % confidence from {self.share * 100:.3g} % of {self.sampled}, "
            f"by clusters without replacement, seed {self.seed}: {width}; {self.seconds:.1f} s"
        )
        lines = [meaning]
        if doubtful := sum(not row.certified for row in self.rows):
            lines.append(
                f"Not certified: {doubtful:,} of {plural(len(self.rows), 'group')}, whose rows in the sample are too "
                "few or too unequal"
            )
        if len(self.aggregates) < len(self.schema):
            rows = log(_MISSED) / log(1 - self.share)
            lines.append(f"Groups with fewer than about {rows:,.0f} rows of {self.sampled} may be missing")
        if self.postponed:
            lines.append(f"{' and '.join(self.postponed)}: only in the exact answer")
        return "\n".join(filter(None, [*lines, self.reason]))

    def table(self) -> tuple[list[tuple[str, str]], list[list[Any]]]:
        """The first rows for a terminal: columns of (name, type), and cells; bounds follow their estimate."""
        columns: list[tuple[str, str]] = []
        for n, one in enumerate(self.schema):
            columns.append((one.name, one.dataType.simpleString()))
            if n in self.aggregates and not self.exact:
                columns += [("low", "double"), ("high", "double")]
        if not self.exact:
            columns += [("sampled rows", "bigint"), ("certified", "boolean")]
        return columns, [self._cells(row) for row in self.rows[:SHOWN]]

    def _cells(self, row: EstimatedRow) -> list[Any]:
        cells: list[Any] = []
        for n, value in enumerate(row.values):
            if n not in self.aggregates:
                cells.append(value)
            elif self.exact:
                cells.append(value and value.estimate)
            else:
                cells += [None] * 3 if value is None else map(_rounded, value[:3])
        return cells if self.exact else [*cells, row.sampled_rows, "yes" if row.certified else "no"]

    def show(self) -> None:
        """Print the rows with their intervals, and what these mean."""
        from dovetail.optimizer.terminal import build_rows_table, stdout_console

        console = stdout_console()
        console.print(build_rows_table(*self.table()))
        if len(self.rows) > SHOWN:
            console.print(f"… and {plural(len(self.rows) - SHOWN, 'more group')}")
        console.print(self.describe())

    def _repr_html_(self) -> str:
        """Show how the intervals have become narrower, in a notebook."""
        history = (*self.earlier, self)
        tracks = []
        for row in self.rows[:SHOWN]:
            past = [old for answer in history for old in answer.rows if old.group == row.group]
            for n in self.aggregates:
                found = [old.values[n] for old in past if old.values[n] is not None]
                tracks.append(Track(", ".join(filter(None, (row.group, self.schema[n].name))), found))
        return f"<pre>{escape(self.describe())}</pre>{draw_tracks(tracks)}"


def _rounded(value: float) -> str:
    """A number with six digits or more."""
    return f"{value:,.0f}" if abs(value) >= 1e6 else f"{value:,.6g}"


_NAME, _PLOT, _LINE = 220, 420, 9  # pixels


class Track(NamedTuple):
    """The intervals of one aggregate of one group, the oldest first."""

    name: str
    intervals: Sequence[Interval]


def draw_tracks(tracks: Sequence[Track]) -> str:
    """Draw for each track its intervals below each other, on an axis of its own; the last one is dark."""
    parts: list[str] = []
    top = 0
    for track in tracks:
        shown = [i for i in track.intervals if isfinite(i.low) and isfinite(i.high)]
        if not shown:
            continue
        low, high = float(min(i.low for i in shown)), float(max(i.high for i in shown))
        scale = (_PLOT - 8) / (high - low) if high > low else 0.0
        parts.append(f'<text x="0" y="{top + 12}" font-size="12">{escape(track.name)}</text>')
        for n, interval in enumerate(shown):
            left, right, middle = (
                _NAME + 4 + (float(value) - low) * scale for value in (interval.low, interval.high, interval.estimate)
            )
            y, color = top + 8 + _LINE * n, "#1b5e9b" if n == len(shown) - 1 else "#a9c4de"
            title = f"{interval.estimate:,.6g} from {interval.low:,.6g} to {interval.high:,.6g}"
            parts.append(
                f'<g stroke="{color}" fill="{color}"><title>{title}</title><line x1="{left:.1f}" x2="{right:.1f}" '
                f'y1="{y}" y2="{y}" stroke-width="3"/><circle cx="{middle:.1f}" cy="{y}" r="3"/></g>'
            )
        top += 14 + _LINE * len(shown)
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{_NAME + _PLOT}" height="{top + 4}">{"".join(parts)}</svg>'
