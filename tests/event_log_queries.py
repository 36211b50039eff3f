"""Queries whose joins Spark plans badly, and others that it plans well, over four small tables, for event logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

TABLES = {
    "points": "SELECT id, id % 10 AS k, id * 7 % 1000 AS x, timestamp_seconds(id * 60) AS ts FROM range(600)",
    "intervals": "SELECT id, id % 10 AS k, id * 5 AS lo, id * 5 + 20 AS hi, timestamp_seconds(id * 300) AS start, "
    "timestamp_seconds(id * 300 + 900) AS finish FROM range(200)",
    "facts": "SELECT id, if(id % 20 < 19, 1, id) AS k, id * 7 % 1000 AS x FROM range({hot})",
    "other_facts": "SELECT id, if(id % 20 < 19, 1, id) AS k, id * 11 % 1000 AS y FROM range({hot})",
    "people": "SELECT id, if(id % 2 = 0, 'e', 'p') AS kind, concat('a', id) AS email, concat('b', id) AS phone, "
    "array(id, id + 1) AS items FROM range(600)",
    "leads": "SELECT id, if(id % 5 > 0, concat('a', id * 2), NULL) AS email, concat('b', id * 3) AS phone, "
    "array(id, id + 7) AS items, map(concat('a', id), id) AS labels FROM range(200)",
}

_NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
_SKEWED = _NO_BROADCAST | {"spark.sql.adaptive.coalescePartitions.enabled": "false"}
_ASOF = {"spark.sql.join.asofJoin.enabled": "true"}


@dataclass(frozen=True)
class Query:
    """A statement, the node that a report has to name (None: no finding), and columns that its condition names."""

    text: str
    node: str | None = None
    columns: tuple[str, ...] = ()
    verdict: str = ""
    settings: dict[str, str] = field(default_factory=dict)


_NESTED = "BroadcastNestedLoopJoin"
_XLH = ("x", "lo", "hi")

PLANTED = {
    "inner": Query("SELECT * FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi", _NESTED, _XLH, "band"),
    "left": Query("SELECT * FROM points p LEFT JOIN intervals i ON p.x >= i.lo AND p.x < i.hi", _NESTED, _XLH, "band"),
    "right": Query(
        "SELECT * FROM points p RIGHT JOIN intervals i ON p.x >= i.lo AND p.x < i.hi", _NESTED, _XLH, "band"
    ),
    "full": Query("SELECT * FROM points p FULL JOIN intervals i ON p.x BETWEEN i.lo AND i.hi", _NESTED, _XLH, "band"),
    "semi": Query(
        "SELECT * FROM points p WHERE EXISTS (SELECT 1 FROM intervals i WHERE p.x BETWEEN i.lo AND i.hi)",
        _NESTED,
        _XLH,
        "band",
    ),
    "anti": Query(
        "SELECT * FROM points p WHERE NOT EXISTS (SELECT 1 FROM intervals i WHERE p.x > i.lo AND p.x < i.hi)",
        _NESTED,
        _XLH,
        "band",
    ),
    "existence": Query(
        "SELECT * FROM points p WHERE p.k = 3 OR EXISTS (SELECT 1 FROM intervals i WHERE p.x BETWEEN i.lo AND i.hi)",
        _NESTED,
        _XLH,
        "band",
    ),
    "cartesian": Query(
        "SELECT * FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi",
        "CartesianProduct",
        _XLH,
        "band",
        _NO_BROADCAST,
    ),
    "cross": Query(
        "SELECT p.x, i.lo FROM points p CROSS JOIN intervals i", "CartesianProduct", (), "no", _NO_BROADCAST
    ),
    "subquery": Query(
        "SELECT k, count(*) FROM (SELECT p.k FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi) GROUP BY k",
        _NESTED,
        _XLH,
        "band",
    ),
    "cte": Query(
        "WITH late AS (SELECT * FROM points WHERE id > 100), found AS (SELECT l.id FROM late l JOIN intervals i "
        "ON l.ts >= i.start AND l.ts < i.finish) SELECT count(*) FROM found",
        _NESTED,
        ("ts", "start", "finish"),
        "band",
    ),
    "distance": Query(
        "SELECT a.id, b.id FROM points a JOIN points b ON abs(a.x - b.x) <= 3",
        _NESTED,
        ("x",),
        "band",
    ),
    "minutes": Query(
        "SELECT * FROM points p JOIN intervals i ON p.ts BETWEEN i.start AND i.start + INTERVAL 10 MINUTES",
        _NESTED,
        ("ts", "start"),
        "band",
    ),
    "overlap": Query(
        "SELECT * FROM intervals a JOIN intervals b ON a.lo <= b.hi AND b.lo <= a.hi",
        _NESTED,
        ("lo", "hi"),
        "band",
    ),
    "unequal": Query("SELECT * FROM points p JOIN intervals i ON p.k <> i.k", _NESTED, ("k",), "no"),
    "either": Query("SELECT * FROM points p JOIN intervals i ON p.x < i.lo OR p.k = i.k", _NESTED, ("x", "lo"), "no"),
    "one_bound": Query("SELECT * FROM points p JOIN intervals i ON p.x >= i.lo", _NESTED, ("x", "lo"), "no"),
    "ranked": Query(
        "SELECT * FROM (SELECT p.id, i.lo, row_number() OVER (PARTITION BY p.id ORDER BY i.lo DESC) AS r "
        "FROM points p JOIN intervals i ON p.x >= i.lo) WHERE r = 1",
        _NESTED,
        ("x", "lo"),
        "nearest",
    ),
    "max_by": Query(
        "SELECT p.id, max_by(i.id, i.start) FROM points p JOIN intervals i ON p.ts >= i.start GROUP BY p.id",
        _NESTED,
        ("ts", "start"),
        "nearest",
    ),
    "asof": Query(
        "SELECT * FROM points p LEFT ASOF JOIN intervals i MATCH_CONDITION (p.ts >= i.start) ON p.k = i.k",
        "SortMergeAsOfJoin",
        ("ts", "start"),
        "nearest",
        _ASOF,
    ),
    "skewed": Query(
        "SELECT count(*) FROM facts a JOIN other_facts b ON a.k = b.k AND a.x * b.y % 999983 <> 7",
        "SortMergeJoin",
        ("k",),
        "no",
        _SKEWED,
    ),
    "skewed_band": Query(
        "SELECT count(*) FROM facts a JOIN other_facts b ON a.k = b.k AND b.y BETWEEN a.x AND a.x + 5",
        "SortMergeJoin",
        ("k", "x", "y"),
        "band",
        _SKEWED,
    ),
    "skewed_hash": Query(
        "SELECT /*+ SHUFFLE_HASH(b) */ count(*) FROM facts a JOIN other_facts b ON a.k = b.k AND a.x + b.y < 5000",
        "ShuffledHashJoin",
        ("k",),
        "band",
        _SKEWED,
    ),
}

# Joins that Dovetail takes by keys, and one that it leaves to Spark; tests/event_logs/keys.zstd has them.
KEYED = {
    name: Query(f"SELECT * FROM people p {join} leads l ON {condition}", _NESTED, columns, verdict)
    for name, join, condition, columns, verdict in (
        ("or", "JOIN", "p.email = l.email OR p.phone = l.phone", ("email", "phone"), "keys"),
        (
            "guards",
            "LEFT JOIN",
            "p.kind = 'e' AND p.email = l.email OR p.kind = 'p' AND p.phone = l.phone",
            ("kind", "email", "phone"),
            "keys",
        ),
        ("in_columns", "LEFT SEMI JOIN", "p.email IN (l.email, l.phone)", ("email", "phone"), "keys"),
        ("element", "JOIN", "array_contains(l.items, p.id)", ("items", "id"), "keys"),
        ("lambda", "JOIN", "exists(l.items, e -> e = p.id)", ("items", "id"), "keys"),
        ("map_key", "JOIN", "map_contains_key(l.labels, p.email)", ("labels", "email"), "keys"),
        ("arrays", "LEFT ANTI JOIN", "arrays_overlap(p.items, l.items)", ("items",), "keys"),
        ("intersection", "JOIN", "size(array_intersect(p.items, l.items)) > 0", ("items",), "keys"),
        ("any", "LEFT JOIN", "p.email = l.email OR l.email IS NULL", ("email",), "keys"),
        ("not_false", "LEFT ANTI JOIN", "(p.email = l.email) IS NOT FALSE", ("email",), "keys"),
        ("unequal_branch", "JOIN", "p.email = l.email OR p.phone <> l.phone", ("email", "phone"), "no"),
    )
}

ORDINARY = {
    "broadcast": Query("SELECT * FROM points p JOIN intervals i ON p.id = i.id"),
    "sorted": Query("SELECT * FROM points p JOIN intervals i ON p.id = i.id", settings=_NO_BROADCAST),
    "broadcast_band": Query("SELECT * FROM points p JOIN intervals i ON p.id = i.id AND p.x BETWEEN i.lo AND i.hi"),
    "one_row": Query("SELECT p.id FROM points p CROSS JOIN (SELECT max(lo) AS top FROM intervals) m WHERE p.x > m.top"),
    "anti_join": Query("SELECT * FROM points p WHERE NOT EXISTS (SELECT 1 FROM intervals i WHERE p.id = i.id)"),
    "not_in": Query("SELECT * FROM points WHERE id NOT IN (SELECT id FROM intervals)"),
    "aggregated": Query("SELECT k, sum(x) FROM points GROUP BY k ORDER BY k"),
}


def make_tables(spark: SparkSession, folder: Path, hot: int = 4_000) -> None:
    """Write the tables as Parquet files below a folder, and read them as temporary views."""
    for name, text in TABLES.items():
        path = str(folder / name)
        spark.sql(text.format(hot=hot)).write.mode("overwrite").parquet(path)
        spark.read.parquet(path).createOrReplaceTempView(name)


def run_queries(spark: SparkSession, queries: dict[str, Query]) -> None:
    """Run each query to its last row; the description of the execution is its name, as a comment, and its text."""
    for name, query in queries.items():
        before = {key: spark.conf.get(key, None) for key in query.settings}
        for key, value in query.settings.items():
            spark.conf.set(key, value)
        spark.sparkContext.setJobDescription(f"/* {name} */ {query.text}")
        spark.sql(query.text).collect()
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)
