"""The joins that several parts measure, as a user writes them, and their tables at any size.

A case ends in `count(*), sum(v * w)`, so that no engine can leave out the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.band_join.data import Table

BAND = 250


@dataclass(frozen=True)
class Case:
    """One query on tables by their names in it; `duck` is its text where DuckDB would not see the band."""

    title: str
    query: str
    tables: tuple[tuple[str, Table], ...]
    duck: str = ""

    @property
    def rows_in(self) -> int:
        """Rows of all tables together."""
        return sum(table.rows for _, table in self.tables)


def two(p: Table, i: Table) -> tuple[tuple[str, Table], ...]:
    """Points and intervals."""
    return (("points", p), ("intervals", i))


def pair(a: Table, b: Table) -> tuple[tuple[str, Table], ...]:
    """Two of a kind."""
    return (("a", a), ("b", b))


def points_and(intervals: str, rows: int, share: int = 10) -> tuple[tuple[str, Table], ...]:
    """So many points, a tenth as many intervals, and two intervals to a point if their mean length is 1,000."""
    return two(Table("points", rows, 50 * rows), Table(intervals, rows // share, 50 * rows))


def point_in_interval(rows: int) -> Case:
    """Lengths up to 2,000."""
    return Case(
        "point in interval",
        "SELECT count(*), sum(p.v * i.w) FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi",
        points_and("intervals", rows),
    )


def pareto(rows: int) -> Case:
    """Lengths from 100 to 10⁷, one in a thousand longer than 100,000."""
    base = point_in_interval(rows)
    return Case("point in interval, Pareto lengths", base.query, points_and("pareto", rows))


def left_join(rows: int) -> Case:
    """Each point is kept; some have no interval."""
    return Case(
        "point in interval, left join",
        "SELECT count(*), sum(p.v * coalesce(i.w, 7)) FROM points p LEFT JOIN intervals i ON p.x BETWEEN i.lo AND i.hi",
        points_and("intervals", rows),
    )


def band(rows: int) -> Case:
    """Five partners to a row."""
    return Case(
        f"|a.x − b.x| ≤ {BAND}",
        f"SELECT count(*), sum(a.v * b.v) FROM a JOIN b ON abs(a.x - b.x) <= {BAND}",
        pair(Table("points", rows, 100 * rows, seed=1), Table("points", rows, 100 * rows, seed=2)),
        f"SELECT count(*), sum(a.v * b.v) FROM a JOIN b ON a.x BETWEEN b.x - {BAND} AND b.x + {BAND}",
    )


def zipf_band(rows: int) -> Case:
    """Keys with a Zipf distribution; a hundredth as many keys as rows."""
    keys = rows // 100
    return Case(
        f"a.k = b.k and |a.x − b.x| ≤ {BAND}",
        f"SELECT count(*), sum(a.v * b.v) FROM a JOIN b ON a.k = b.k AND a.x BETWEEN b.x - {BAND} AND b.x + {BAND}",
        pair(Table("zipf", rows, rows, seed=1, keys=keys), Table("zipf", rows, rows, seed=2, keys=keys)),
    )


def overlap(rows: int, kind: str = "intervals") -> Case:
    """Two intervals have a point in common; four partners to an interval if the lengths are up to 2,000."""
    return Case(
        "overlap of intervals" if kind == "intervals" else f"overlap of intervals, {kind.title()} lengths",
        "SELECT count(*), sum(a.w * b.w) FROM a JOIN b ON a.lo <= b.hi AND b.lo <= a.hi",
        pair(Table(kind, rows, 500 * rows, seed=1), Table(kind, rows, 500 * rows, seed=2)),
    )
