"""DataFrames of Spark Connect, as JSON: ``python connect_frames_main.py SCRATCH SEED EXAMPLES``.

Each is planned, and its rows, columns and types are compared with those of the DataFrame as it is.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from pyspark.errors import PySparkException

from dovetail import Optimizer, Options
from dovetail.executor.dataframes.installed_frames import ACTIONS
from dovetail.executor.session.schemas import fields_of
from random_frames import HOWS, random_frame
from self_join_frames import ONE_SCAN, SelfJoins
from sessions import start


class Frames:
    """The DataFrames of the cases."""

    def __init__(self, session: Any) -> None:
        from pyspark.sql import functions

        self.session, self.f = session, functions
        self.events = session.range(200).selectExpr("id", "IF(id % 9 = 8, NULL, id * 7 % 100) AS ts")
        self.windows = session.range(40).selectExpr("id", "id * 2 AS lo", "id * 2 + 3 AS hi")
        self.band = (self.events.ts >= self.windows.lo) & (self.events.ts <= self.windows.hi)
        self.joined = self.events.join(self.windows, self.band)

    def written(self) -> dict[str, Any]:
        """Those that are rewritten."""
        from datetime import date, datetime, timedelta
        from decimal import Decimal

        from pyspark.sql import Window

        f, events, windows, joined = self.f, self.events, self.windows, self.joined
        by = Window.partitionBy("lo").orderBy("ts", f.desc(events.id))
        found = {how: events.join(windows, self.band, how) for how in HOWS if how != "cross"}
        e, w = events.alias("e"), windows.alias("w")
        by_text = e.join(w, f.expr("e.ts BETWEEN w.lo AND w.hi"))
        ends = windows.select(windows.id.alias("z"), f.col("lo").alias("lo2"), f.col("hi").alias("hi2"))
        for how in HOWS[:-1]:
            using = e.join(windows.select("id", f.lit(how).alias("how")), "id", how)
            found[f"using, {how}"] = using.join(ends, f.expr("ts BETWEEN lo2 AND hi2"))
            found[f"right side, {how}"] = ends.join(
                joined.select(events.id, "ts"), f.expr("ts BETWEEN lo2 AND hi2"), how
            )
        return found | {
            "columns of DataFrames": joined.select(events["id"], windows["id"], "ts"),
            "a star of a DataFrame": joined.select(windows["*"], events.id),
            "behind aliases": by_text.select("e.id", f.col("w.id").alias("window"), "w.*"),
            "filters": joined.filter("lo > 4 AND ts < 50").filter(windows.hi > 7),
            "groups": joined.groupBy("lo").agg(f.count("*"), f.sum("ts"), f.max(events.id).alias("last")),
            "no groups": joined.agg(f.count("*"), f.expr("max(ts) + 1"), f.countDistinct("lo")),
            "order": joined.select("ts", "lo", events.id).orderBy("ts", f.desc("lo"), "id").limit(7),
            "distinct": joined.select("ts").distinct(),
            "union": joined.select("ts").union(events.select("id")).union(joined.select("lo")),
            "exceptAll": joined.select("ts").exceptAll(events.select("id")).intersect(joined.select("lo")),
            "withColumn": joined.select("ts", "lo").withColumn("LO", f.col("ts") + 1).withColumnRenamed("lo", "y"),
            "drop": joined.drop(windows.id).select("id", "lo"),
            "toDF": joined.toDF("a", "b", "c", "d", "e").filter("a > 3").select("c", "e"),
            "names that Spark makes": joined.select(f.col("ts") + 1, "lo")
            .groupBy("(ts + 1)")
            .count()
            .filter("count > 0"),
            "subqueries": joined.select(events.id.alias("i"), "ts")
            .alias("q")
            .join(w, f.expr("q.ts BETWEEN w.lo AND w.hi")),
            "with itself": e.join(events.alias("b"), f.expr("e.ts BETWEEN b.ts AND b.ts + 2")).select("e.id", "b.ts"),
            "other case": joined.select("TS", "Lo"),
            "twice one column": joined.select("ts", "ts", "lo"),
            "texts": joined.select(f.lit("{it's}\\"), "ts").filter(f.col("ts").cast("string").like("1%")),
            "values": joined.select(
                *(f.lit(one).alias(f"c{n}") for n, one in enumerate((1.5, None, True, -3, 2**40, "é"))),
                *map(f.lit, (date(2024, 1, 2), datetime(2024, 1, 2, 3, 4, 5, 6), timedelta(hours=3), Decimal("1.50"))),
            ),
            "operators": joined.select(
                f.when(f.col("ts") > 3, "x").when(f.col("ts").isNull(), "z").otherwise("y"),
                f.col("ts").isin(1, 2, 3),
                *(-f.col("lo"), ~(f.col("lo") > 3), f.col("lo") % 2, f.col("ts").isNotNull() | (f.col("lo") == 1)),
                *(f.col("lo").between(1, 3), f.col("ts").cast("int"), f.expr("CASE ts WHEN 1 THEN 'o' END")),
                *(f.struct("ts", "lo")["ts"], f.upper(f.col("ts").cast("string")), f.col("ts").bitwiseAND(3)),
            ),
            "windows": joined.select(
                *("lo", f.row_number().over(by).alias("n"), f.lag("ts", 2, -1).over(by).alias("l")),
                *(f.sum("ts").over(by.rowsBetween(-2, 1)), f.max("ts").over(Window.partitionBy(f.col("lo") % 3))),
            ),
            "the first of each": joined.drop(windows.id)
            .withColumn("n", f.row_number().over(by))
            .filter("n = 1")
            .drop("n"),
            "a window in SQL": joined.selectExpr("sum(ts) OVER (PARTITION BY lo) AS s", "ts"),
            "functions of values": joined.select(
                f.transform(f.array("lo", "hi"), lambda x, n: x + n * f.col("ts")),
                f.filter(f.array("lo", "hi"), lambda x: x % 2 == 0),
                f.aggregate(f.array("lo", "hi"), f.lit(0).cast("bigint"), lambda a, x: a + x),
            ),
            "explode": joined.select(f.explode(f.array("lo", "hi"))),
            "wide": joined.select("ts", *((f.col("lo") + n).alias(f"c{n}") for n in range(40))),
        }

    def refused(self) -> dict[str, tuple[Any, str]]:
        """Those that come back as they are, with words of the reason."""
        from pyspark.sql import Observation, Window

        f, events, windows, joined = self.f, self.events, self.windows, self.joined
        by = Window.partitionBy("lo").orderBy("ts", f.desc(events.id))
        stream = self.session.readStream.format("rate").load()
        observed = events.observe(Observation(), f.count("*").alias("n"))
        deep = joined
        for n in range(31):
            deep = deep.withColumn(f"c{n % 7}", f.col("ts") + n)
        other = session_of_its_own(self.session).range(3)
        return {
            "a UDF": (joined.select(f.udf(lambda x: x, "long")("ts")), "a function of yours"),
            "a lambda in SQL": (joined.selectExpr("transform(array(ts), x -> x + 1)"), "a lambda function"),
            "a subquery": (joined.selectExpr("(SELECT 1) AS one"), "a subquery"),
            "no join": (events, "has no join"),
            "SQL": (self.session.sql("SELECT * FROM range(3) a JOIN range(4) b ON a.id <= b.id"), "opt.sql()"),
            "the first of each, two columns of one name": (
                joined.withColumn("n", f.row_number().over(by)).filter("n = 1").drop("n"),
                "Spark plans it otherwise",
            ),
            "a hint": (joined.hint("broadcast"), "below hint"),
            "partitions": (joined.sortWithinPartitions("ts"), "below sort"),
            "a place": (joined.withColumn("p", f.spark_partition_id()), "another plan"),
            "like a column": (joined.filter(f.lit("x#1") == f.lit("x#1")), "looks like a column"),
            "a stream": (stream.join(stream.alias("y"), f.expr("true")), "is a stream"),
            "metrics": (observed.join(windows, self.band), "observes metrics"),
            "depth": (deep, "more than 30 operators"),
            "another session": (other.alias("a").join(other.alias("b"), f.expr("a.id <= b.id")), "another session"),
            "an error of Spark's": (joined.select("nowhere"), "nowhere"),
        }


def session_of_its_own(session: Any) -> Any:
    """Another session of the same server; PySpark 4.0 has no ``newSession`` for it."""
    from pyspark.sql.connect.session import SparkSession

    try:
        return session.newSession()
    except PySparkException:
        return SparkSession(connection=session.client._builder)


def rows(frame: Any) -> Counter[str] | str | None:
    """The rows of a DataFrame, or the condition of Spark's error."""
    try:
        return Counter(map(repr, frame.collect()))
    except PySparkException as error:
        return error.getCondition()


def difference(frame: Any, found: Any) -> str:
    """How a DataFrame differs from the one that it was planned from; empty if it does not."""
    if fields_of(found.schema) != fields_of(frame.schema):
        return f"{found.schema} in the place of {frame.schema}"
    after, before = rows(found), rows(frame)
    return "" if after == before else f"{after} in the place of {before}"


def check(opt: Optimizer, frame: Any) -> dict[str, Any]:
    """Plan a DataFrame, and compare."""
    plan = opt.plan(frame)
    found = opt.dataframe(frame)
    reasons = "; ".join(d.reason for d in plan.declined)
    if (found is not frame) != plan.rewritten:
        return {
            "rewritten": plan.rewritten,
            "wrong": "opt.plan and opt.dataframe differ",
            "reasons": reasons,
            "rules": (),
        }
    return {
        "rewritten": plan.rewritten,
        "wrong": difference(frame, found) if plan.rewritten else "",
        "reasons": reasons,
        "rules": plan.rules if plan.rewritten else (),
    }


def cached(opt: Optimizer, frames: Frames) -> list[str]:
    """What is wrong with a DataFrame that is cached, below others and alone; also with a cache that has a name."""
    joined, wrong = frames.joined.select("ts", "lo").cache(), []
    joined.count()
    above = joined.join(frames.windows.select(frames.windows.lo.alias("l"), "hi"), frames.f.expr("ts BETWEEN l AND hi"))
    for frame, rewritten in ((joined, False), (joined.filter("lo > 3"), False), (above, True)):
        found = check(opt, frame)
        if found["rewritten"] != rewritten or found["wrong"] or (rewritten and opt.plan(frame).text.count("JOIN") != 1):
            wrong.append(f"{found} {opt.plan(frame).text}")
    windows = frames.windows
    for text in ("SELECT ts FROM {j}", "SELECT j.ts FROM {j} j JOIN {w} w ON j.ts BETWEEN w.lo AND w.hi"):
        opt.sql(text, j=joined, w=windows).count()
        opt.plan(text, j=joined, w=windows).dataframe().count()
    if not joined.storageLevel.useMemory:
        wrong.append("the rows are not cached any more")
    joined.unpersist()
    aliased = above.alias("a")
    if difference(aliased.select("a.ts", "a.l"), opt.dataframe(aliased).select("a.ts", "a.l")):
        wrong.append("the alias is lost")
    frames.events.createOrReplaceTempView("named")
    for command in ("CACHE TABLE named", "CACHE TABLE named2 AS SELECT * FROM named"):
        frames.session.sql(command)
        name = command.split()[2]
        named = frames.session.table(name)
        frame = named.join(frames.windows, named.ts.between(frames.windows.lo, frames.windows.hi))
        if (found := check(opt, frame))["wrong"] or not found["rewritten"]:
            wrong.append(f"{command}: {found}")
        if not frames.session.catalog.isCached(name):
            wrong.append(f"{command}: the rows are not cached any more")
        frames.session.sql(f"UNCACHE TABLE {name}")
    for name in ("named", "named2"):
        frames.session.catalog.dropTempView(name)
    return wrong


def at_once(opt: Optimizer, frames: Frames) -> list[str]:
    """What is wrong with a setting after threads have planned frames of many columns at once."""
    wide = frames.events.select("ts", *(frames.f.lit(n).alias(f"c{n}") for n in range(40)))
    frame = wide.join(frames.windows, wide.ts.between(frames.windows.lo, frames.windows.hi))
    name = "spark.sql.debug.maxToStringFields"
    before = frames.session.conf.get(name, "25")
    with ThreadPoolExecutor(3) as threads:
        plans = list(threads.map(lambda _: opt.plan(frame).rewritten, range(3)))
    after = frames.session.conf.get(name, "25")
    return [] if before == after and all(plans) else [f"{before} {after} {plans}"]


def installed(frames: Frames, folder: Path) -> list[str]:
    """What is wrong with the actions of DataFrames under ``install(frames=True)``."""
    session, joined, wrong = frames.session, frames.joined.select("ts", "lo"), []
    expected, actions = rows(joined), ACTIONS
    before = {name: vars(type(joined)).get(name) for name in (*actions, "write")}
    opt = Optimizer.install(session, Options(force=True), frames=True)
    try:
        if rows(joined) != expected or joined.count() != sum(expected.values()):  # type: ignore[union-attr]
            wrong.append("other rows")
        if joined.executionInfo is None:
            wrong.append("no metrics")
        joined.write.parquet(str(folder / "written"))
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            joined.explain()
        if "Generate explode" not in text.getvalue():
            wrong.append(f"not planned: {text.getvalue()}")
        if joined.filter(frames.windows.lo > 4).count() != rows(joined.filter("lo > 4")).total():  # type: ignore[union-attr]
            wrong.append("a column of an input is not found")
        try:
            joined.select("nowhere").collect()
            wrong.append("no error")
        except PySparkException as error:
            if error.getCondition() != "UNRESOLVED_COLUMN.WITH_SUGGESTION":
                wrong.append(str(error))
    finally:
        opt.uninstall()
    if rows(session.read.parquet(str(folder / "written"))) != expected:
        wrong.append("other rows are written")
    if before != {name: vars(type(joined)).get(name) for name in before} or vars(session).get("_dovetail_frames"):
        wrong.append("something stays installed")
    return wrong


def planted(opt: Optimizer, frames: Frames) -> list[str]:
    """Statements that are not the DataFrame, and count as it all the same."""
    from dovetail.executor.frame_sql.query_blocks import Block, QueryBlocks

    twin = frames.session.range(50).selectExpr("id", "id * 3 % 100 AS ts")
    on = frames.f.expr("a.ts BETWEEN b.ts AND b.ts + 2")
    frame = frames.events.alias("a").join(twin.alias("b"), on, "left").where("a.id < 7").select("a.id", "b.ts")
    write, wrong = QueryBlocks.write, []
    faults = {
        "another operator": (" < 7", " <= 7"),
        "another number": ("+ 2", "+ 3"),
        "another join": ("LEFT JOIN", "JOIN"),
        "another column": ("SELECT `a`.`id`", "SELECT `a`.`ts` AS `id`"),
        "another side": ("SELECT `a`.`id`", "SELECT `b`.`id`"),
        "more rows": ("WHERE", "WHERE true OR"),
        "relations in each other's place": ("", ""),
        "one relation for both": ("", ""),
    }
    over_a_table = {
        "another aggregate": ("avg(", "max("),
        "another column of the aggregate": ("avg(`few_2`.`v`)", "avg(`few_2`.`id`)"),
        "another factor": ("* 2", "* 3"),
        "another filter": ("`v` > 1", "`v` > 2"),
    }
    own = SelfJoins(frames.session)
    few = own.table().filter("v > 1").alias("few")
    mean = own.below_mean(few, own.mean(few))
    cases = [(frame, *fault) for fault in faults.items()] + [(mean, *fault) for fault in over_a_table.items()]
    for planned, name, (old, new) in cases:

        def faulty(
            blocks: QueryBlocks, block: Block, names: list[str], name: str = name, old: str = old, new: str = new
        ) -> str:
            text, (one, *others) = write(blocks, block, names), blocks.views
            other = others[0] if others else ""
            if name == "relations in each other's place":
                changed = text.replace(one, "\0").replace(other, one).replace("\0", other)
            else:
                changed = text.replace(old, new) if old else text.replace(one, other)
            assert changed != text, text
            return changed

        QueryBlocks.write = faulty  # type: ignore[method-assign, assignment]
        try:
            plan = opt.plan(planned)
        finally:
            QueryBlocks.write = write  # type: ignore[method-assign]
        if not any("is not what its SQL would be" in d.reason for d in plan.declined):
            wrong.append(f"{name}: {plan.explain()}")
    return wrong


def self_joins(opt: Optimizer, frames: SelfJoins) -> dict[str, Any]:
    """What is wrong with DataFrames that read a table in more than one way."""
    once, wrong = frames.both() | frames.by_written_filters(), {}
    for name, frame in (once | frames.read_again()).items():
        found = check(opt, frame)
        is_read_once = bool(ONE_SCAN.intersection(found["rules"]))
        if found["wrong"] or is_read_once != (name in once) or "its SQL would be" in found["reasons"]:
            wrong[f"self-join: {name}"] = found
    return wrong


def main(session: Any, seed: int, examples: int) -> dict[str, Any]:
    """Plan all of them."""
    opt, frames = Optimizer(session, Options(force=True, strict=True)), Frames(session)
    seen: dict[str, Any] = {"wrong": {}, "random": 0, "random rewritten": 0, "random reasons": {}}
    for name, frame in frames.written().items():
        found = check(opt, frame)
        if not found["rewritten"] or found["wrong"]:
            seen["wrong"][name] = found
    for name, (frame, reason) in frames.refused().items():
        found = check(opt, frame)
        if found["rewritten"] or reason not in found["reasons"]:
            seen["wrong"][name] = found
    seen["wrong"] |= self_joins(opt, SelfJoins(session))
    seen["wrong"] |= {f"cached {n}": one for n, one in enumerate(cached(opt, frames))}
    seen["wrong"] |= {f"at once {n}": one for n, one in enumerate(at_once(opt, frames))}
    seen["wrong"] |= {f"planted {n}": one for n, one in enumerate(planted(opt, frames))}
    with tempfile.TemporaryDirectory() as folder:
        seen["wrong"] |= {f"installed {n}": one for n, one in enumerate(installed(frames, Path(folder)))}
    by_text = opt.join(frames.events.alias("e"), frames.windows.alias("w"), "e.ts BETWEEN w.lo AND w.hi", "left")
    if problem := difference(frames.events.join(frames.windows, frames.band, "left"), by_text):
        seen["wrong"]["opt.join"] = problem
    for n in range(examples):
        frame = random_frame(session, Random(f"{seed} {n}"))
        if isinstance(rows(frame), str):
            continue
        found = check(opt, frame)
        seen["random"] += 1
        seen["random rewritten"] += found["rewritten"]
        if found["wrong"]:
            seen["wrong"][f"random {n}"] = found
        if not found["rewritten"]:
            seen["random reasons"][n] = found["reasons"]
    if left := [table.name for table in session.catalog.listTables()]:
        seen["wrong"]["views"] = left
    return seen


if __name__ == "__main__":
    remote = os.environ.get("DOVETAIL_TEST_REMOTE")  # a server that runs already
    if remote:
        from pyspark.sql import SparkSession

        own = SparkSession.builder.remote(remote).getOrCreate()
    else:
        own = start("connect", Path(sys.argv[1] or tempfile.mkdtemp()))
    print(json.dumps(main(own, int(sys.argv[2]), int(sys.argv[3])), indent=1), flush=True)
    os._exit(0)  # the server ends with its process; each session that says goodbye to it afterwards waits for an answer
