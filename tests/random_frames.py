"""Random DataFrames of any kind of session: trees of joins, and operators between and above them."""

from __future__ import annotations

from random import Random
from typing import Any

HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti", "cross")
_MADE = ("x", "d", "s", "n")


def random_frame(session: Any, random: Random) -> Any:
    """Make a DataFrame as people make them: names with and without aliases, and columns of DataFrames."""
    left, right = _relation(session, random), _relation(session, random)
    if random.random() < 0.15:
        right = left
    joined = _joined(left, right, random) if random.random() < 0.75 else _joined_with_itself(left, random)
    frame, columns = joined
    for _ in range(random.choice((0, 0, 1))):
        more = _relation(session, random).toDF("x3", "d3", "s3", "n3")
        x = columns[0]
        on = (x >= more["x3"]) & (x <= more["x3"] + random.randrange(3))
        frame = frame.join(more, on, random.choice(HOWS[:-1]))
    for _ in range(random.randrange(4)):
        frame, columns = _step(session, frame, columns, random)
    return frame


def _relation(session: Any, random: Random) -> Any:
    size = random.choice((0, 3, 14))
    if random.random() < 0.3:
        rows = [(n % 5 if n % 7 < 6 else None, n * 3 % 11, "abc"[n % 3], float(n) / 2) for n in range(size)]
        return session.createDataFrame(rows, "x BIGINT, d INT, s STRING, n DOUBLE")
    made = session.range(size).selectExpr(
        "IF(id % 7 = 6, NULL, id * 2 % 5) AS x",
        f"CAST(id * {random.randrange(4)} % 11 AS INT) AS d",
        "IF(id % 6 = 5, NULL, substring('abcab', CAST(id % 3 AS INT) + 1, 1)) AS s",
        "CASE WHEN id % 8 = 7 THEN CAST('nan' AS DOUBLE) ELSE id / 2 END AS n",
    )
    if random.random() < 0.3:
        made = made.filter(random.choice(("x > 1", "d IS NOT NULL AND s <> 'b'", "n < 5")))
    return made.distinct() if random.random() < 0.1 else made


def _joined(left: Any, right: Any, random: Random) -> tuple[Any, list[Any]]:
    """Join two relations, and return columns of the result that a name or a DataFrame refers to."""
    from pyspark.sql import functions as f

    how, width = random.choice(HOWS), random.randrange(3)
    shows_right = how not in ("left_semi", "left_anti")
    kind = random.randrange(3)
    if kind == 0 and left is not right:  # columns of the DataFrames
        on = (left["x"] >= right["x"]) & (left["x"] <= right["x"] + width)
        on = on & (left["s"] == right["s"]) if random.random() < 0.3 else on
        columns = [left["x"], left["s"], *([right["d"], right["x"].alias("rx")] if shows_right else ())]
        return left.join(right, on, how), columns
    if kind == 1:  # one name for both sides
        other = right.select("x", f.col("d").alias("lo"), (f.col("d") + width).alias("hi"), f.col("s").alias("s2"))
        frame = left.join(other, "x", how)
        if how == "cross":
            frame = left.join(other, "x")
        return frame.where("d BETWEEN lo AND hi") if shows_right else frame, [f.col("x"), f.col("d"), f.col("s")]
    on = f.expr(f"l.d BETWEEN r.d AND r.d + {width}" + random.choice(("", " AND l.s = r.s", " AND l.X <=> r.x")))
    columns = [f.col("l.x"), f.col("l.s"), *([f.col("r.n"), f.col("r.d").alias("rd")] if shows_right else ())]
    return left.alias("l").join(right.alias("r"), on, how), columns


def _joined_with_itself(table: Any, random: Random) -> tuple[Any, list[Any]]:
    """Join rows of a table with others of it, or with aggregates over it."""
    from pyspark.sql import functions as f

    left, right = (_filtered(table.alias(name), random) for name in "lr")
    match random.randrange(3):
        case 0:
            how = random.choice(("left_semi", "left_anti", *HOWS[:-1]))
            on = f.expr("l.x = r.x AND l.d " + random.choice(("< r.d", "<> r.d", "BETWEEN r.d - 1 AND r.d")))
            shown = [f.col("r.d").alias("rd")] if how not in ("left_semi", "left_anti") else []
            return left.join(right, on, how), [f.col("l.x"), f.col("l.s"), *shown]
        case 1:
            of_key = right.groupBy(f.col("x").alias("k")).agg(f.max("d").alias("m"), f.avg("n").alias("a"))
            of_key = random.choice((of_key, of_key.filter("m > 2"), of_key.select("k", (f.col("m") + 1).alias("m"))))
            frame = left.join(of_key, f.col("l.x") == f.col("k"), random.choice(("inner", "inner", "left")))
            return random.choice((frame, frame.filter("d < m"))), [f.col("l.x"), f.col("d"), f.col("m")]
        case _:
            total = right.agg(f.sum("d").alias("t"), f.count("*").alias("c"))
            more = random.choice((left, left.agg(f.max("d").alias("d"), f.min("x").alias("x"))))
            return more.crossJoin(total), [f.col("x"), f.col("d"), f.col("t")]


def _filtered(frame: Any, random: Random) -> Any:
    for _ in range(random.choice((0, 0, 1, 2))):
        frame = frame.filter(random.choice(("x > 1", "d IS NOT NULL AND s <> 'b'", "n < 5", "d % 2 = 1")))
    return frame


def _step(session: Any, frame: Any, columns: list[Any], random: Random) -> tuple[Any, list[Any]]:
    from pyspark.sql import functions as f

    x, other = columns[0], columns[-1]
    match random.randrange(10):
        case 0:
            condition = random.choice((x > 1, x.isNull() | (x < 4), x.isin(1, 2, 3), x != 2))
            return frame.filter(condition), columns
        case 1:
            grouped = frame.groupBy(x.alias("k")).agg(f.count("*"), f.max(other).alias("m"), f.sum(x).alias("t"))
            return grouped, [f.col("k"), f.col("m")]
        case 2:
            made = f.when(x > 2, f.lit("big")).when(x.isNull(), "none").otherwise(x.cast("string")).alias("w")
            return frame.select(x.alias("a"), other.alias("b"), made), [f.col("a"), f.col("b")]
        case 3:
            return frame.select(x.alias("a"), other.alias("b")).distinct(), [f.col("a"), f.col("b")]
        case 4:
            chosen = frame.select(x.alias("a"), other.alias("b"))
            return chosen.orderBy(f.desc("a"), "b").limit(random.choice((0, 3, 50))), [f.col("a"), f.col("b")]
        case 5:
            more = _relation(session, random).select("x")
            return frame.select(x.alias("a")).union(more), [f.col("a")]
        case 6:
            return frame.withColumn("w", x + 1).withColumnRenamed("w", "z").withColumn("y", f.lit(1.5)), columns
        case 7:
            return frame.select("*", (x * 2).alias("twice")), columns
        case 8:
            return frame.select(x.alias("a"), other.alias("b")).alias("q"), [f.col("q.a"), f.col("b")]
        case _:
            return frame.select(x.alias("a"), other.alias("b")).drop("b"), [f.col("A")]
