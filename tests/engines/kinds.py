"""A query of each kind of rewriting, over Parquet files of which most columns have random values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

POINTS, INTERVALS, FEW = 20_000, 4_000, 1_000

_DRAWN = "pmod(xxhash64(id, {}), {})"


def tables(scale: int) -> dict[str, str]:
    """The query of each table; a row has a few matches in each join, whatever the scale."""
    points, intervals, few = POINTS * scale, INTERVALS * scale, FEW * scale
    wide = 50 * points

    def draw(seed: int, below: int, kind: str = "INT") -> str:
        return f"CAST({_DRAWN.format(seed, below)} AS {kind})"

    side = int(1000 * points**0.5)
    return {
        "p": f"SELECT id, {draw(1, wide)} AS x, {draw(2, 50)} AS k, {draw(3, 1000)} AS v, "
        f"CAST({draw(1, wide)} / 4 AS DOUBLE) AS f, timestamp_micros({draw(1, wide, 'BIGINT')} * 1000000) AS t, "
        f"{draw(4, side)} AS px, {draw(5, side)} AS py FROM range({points})",
        "i": f"SELECT id, {draw(11, wide)} AS lo, {draw(11, wide)} + {draw(12, 500)} AS hi, {draw(13, 50)} AS k, "
        f"IF(id % 9 = 0, NULL, {draw(11, wide)} + {draw(12, 500)}) AS till, {draw(14, 100)} AS w, "
        f"CAST({draw(11, wide)} / 4 AS DOUBLE) AS f, timestamp_micros({draw(11, wide, 'BIGINT')} * 1000000) AS t0, "
        f"timestamp_micros(({draw(11, wide, 'BIGINT')} + {draw(12, 500)}) * 1000000) AS t1, "
        f"{draw(15, side)} AS ex, {draw(16, side)} AS ey FROM range({intervals})",
        "m": f"SELECT id, {draw(21, wide)} AS lo, {draw(21, wide)} + CAST(pow(10, 1 + 4 * {draw(22, 1000)} / 1000.0) "
        f"AS INT) AS hi FROM range({intervals})",
        "a": f"SELECT id, {draw(31, points)} AS x, {draw(32, points)} AS y, concat('n', {draw(33, points)}) AS name, "
        f"array({draw(34, points)}, {draw(35, points)}) AS items, "
        f"concat(left(sha1(CAST({draw(36, points)} AS STRING)), 9), 'z') AS code FROM range({points})",
        "b": f"SELECT id, IF(id % 10 = 0, NULL, {draw(41, points)}) AS x, {draw(42, points)} AS y, "
        f"concat('n', {draw(43, points)}) AS name, array({draw(44, points)}, {draw(45, points)}) AS items, "
        f"left(sha1(CAST({draw(46, points)} AS STRING)), {draw(47, 3)} + 3) AS head FROM range({intervals})",
        "t": f"SELECT id, {draw(51, few)} AS k, {draw(52, 1000)} AS x, {draw(53, 9)} AS v FROM range({points})",
    }


BAND = "p.x BETWEEN i.lo AND i.hi"
_LAST = "row_number() OVER (PARTITION BY p.id ORDER BY i.lo DESC, i.id)"
_FAR = "abs(p.f - i.f)"
_BOX = "p.px BETWEEN i.ex AND i.ex + 2000 AND p.py BETWEEN i.ey AND i.ey + 2000"
_RADIUS = "sqrt(pow(CAST(p.px AS DOUBLE) - i.ex, 2) + pow(CAST(p.py AS DOUBLE) - i.ey, 2)) < 1500"
QUERIES = {
    "band, inner": f"SELECT p.id, i.id AS i FROM p JOIN i ON {BAND}",
    "band, left": f"SELECT p.id, i.id AS i FROM p LEFT JOIN i ON {BAND}",
    "band, full": f"SELECT p.id, i.id AS i FROM p FULL JOIN i ON {BAND}",
    "band, semi": f"SELECT p.id FROM p WHERE EXISTS (SELECT 1 FROM i WHERE {BAND})",
    "band, anti": f"SELECT p.id FROM p WHERE NOT EXISTS (SELECT 1 FROM i WHERE {BAND})",
    "band and equality": f"SELECT p.id, i.id AS i FROM p JOIN i ON p.k = i.k AND {BAND}",
    "band without an end": "SELECT p.id, i.id AS i FROM p JOIN i ON p.x >= i.lo AND (p.x < i.till OR i.till IS NULL) "
    "AND i.lo % 3 = 0",
    "band of timestamps": "SELECT p.id, i.id AS i FROM p JOIN i ON p.t BETWEEN i.t0 AND i.t1",
    "band of mixed lengths": "SELECT p.id, m.id AS i FROM p JOIN m ON p.x BETWEEN m.lo AND m.hi",
    "distance": "SELECT p.id, i.id AS i FROM p JOIN i ON abs(p.x - i.lo) <= 100",
    "distance of doubles": "SELECT p.id, i.id AS i FROM p JOIN i ON p.f BETWEEN i.f - 25 AND i.f + 25",
    "overlap": "SELECT a.id, b.id AS b FROM i a JOIN i b ON a.lo <= b.hi AND b.lo <= a.hi",
    "point in a box": f"SELECT p.id, i.id AS i FROM p JOIN i ON {_BOX}",
    "within a radius": f"SELECT p.id, i.id AS i FROM p JOIN i ON {_RADIUS}",
    "keys, OR": "SELECT a.id, b.id AS b FROM a JOIN b ON a.x = b.x OR a.name = b.name",
    "keys, OR, left": "SELECT a.id, b.id AS b FROM a LEFT JOIN b ON a.x = b.x OR a.name = b.name",
    "keys, OR, anti": "SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.x = b.x OR a.name = b.name)",
    "keys, IN": "SELECT a.id, b.id AS b FROM a JOIN b ON a.x IN (b.x, b.y)",
    "keys, element of an array": "SELECT a.id, b.id AS b FROM a JOIN b ON array_contains(a.items, b.y)",
    "keys, two arrays": "SELECT a.id, b.id AS b FROM a JOIN b ON arrays_overlap(a.items, b.items)",
    "keys, prefix": "SELECT a.id, b.id AS b FROM a JOIN b ON startswith(a.code, b.head)",
    "keys, text in a text": "SELECT a.id, b.id AS b FROM a JOIN b ON contains(a.code, b.head)",
    "keys, NULL means any": "SELECT a.id, b.id AS b FROM a JOIN b ON (a.x = b.x OR b.x IS NULL) AND a.y = b.y",
    "last row before": f"SELECT id, i FROM (SELECT p.id, i.id AS i, {_LAST} AS n FROM p JOIN i "
    "ON p.k = i.k AND i.lo <= p.x) WHERE n = 1",
    "last row before, left": f"SELECT id, i FROM (SELECT p.id, i.id AS i, {_LAST} AS n FROM p LEFT JOIN i "
    "ON p.k = i.k AND i.lo <= p.x) WHERE n = 1",
    "last three before": f"SELECT id, i FROM (SELECT p.id, i.id AS i, {_LAST} AS n FROM p JOIN i "
    "ON p.k = i.k AND i.lo <= p.x) WHERE n <= 3",
    "last before, max_by": "SELECT p.id, max(i.lo) AS lo, max_by(i.w, i.lo) AS w FROM p JOIN i "
    "ON p.k = i.k AND i.lo <= p.x GROUP BY p.id",
    "least distant": f"SELECT id, d FROM (SELECT p.id, {_FAR} AS d, row_number() OVER (PARTITION BY p.id "
    f"ORDER BY {_FAR}) AS n FROM p JOIN i ON p.k = i.k) WHERE n = 1",
    "one bound, EXISTS": "SELECT p.id FROM p WHERE EXISTS (SELECT 1 FROM i WHERE i.k = p.k AND i.lo >= p.x * 2)",
    "sums by point": f"SELECT p.id, count(*) AS n, sum(i.w) AS s FROM p JOIN i ON {BAND} GROUP BY p.id",
    "sums by interval": f"SELECT i.id, count(*) AS n, sum(p.v) AS s FROM p JOIN i ON {BAND} GROUP BY i.id",
    "correlated sum": "SELECT id, (SELECT sum(b.v) FROM t b WHERE b.k = a.k AND b.x <= a.x) AS s FROM t a",
    "window over a band": "SELECT a.id, count(*) AS n, sum(b.v) AS s FROM t a JOIN t b "
    "ON a.k = b.k AND b.x BETWEEN a.x - 50 AND a.x GROUP BY a.id",
    "own group": "SELECT a.id FROM t a WHERE a.v > (SELECT avg(b.v) FROM t b WHERE b.k = a.k)",
    "pairs that differ": "SELECT id FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.k = a.k AND b.v <> a.v)",
    "join on a unique key": "SELECT a.id, b.v FROM t a JOIN t b ON a.id = b.id",
    "scalar aggregates": "SELECT (SELECT count(*) FROM t WHERE v = 1) AS n, (SELECT sum(v) FROM t WHERE k = 2) AS s",
}


def write(session: Any, folder: Path, scale: int) -> None:
    """Write the tables as Parquet unless they are there."""
    for name, query in tables(scale).items():
        if not (folder / name / "_SUCCESS").exists():
            session.sql(query).write.mode("overwrite").parquet(str(folder / name))


def read(session: Any, folder: Path) -> None:
    """Make a view of each table."""
    for name in tables(1):
        session.read.parquet(str(folder / name)).createOrReplaceTempView(name)
