"""DataFrames that exist already: planned where Spark proves that their SQL is the same, and otherwise left alone."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail import Optimizer, Options, optimized
from effort import examples
from self_join_frames import ONE_SCAN, SelfJoins

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def opt(spark: SparkSession) -> Optimizer:
    return Optimizer(spark.newSession(), Options(force=True))


@pytest.fixture
def events(opt: Optimizer) -> Iterator[DataFrame]:
    yield opt.session.range(200).selectExpr("id", "id * 7 % 100 AS ts")
    assert [t.name for t in opt.session.catalog.listTables()] == []


@pytest.fixture
def windows(opt: Optimizer) -> DataFrame:
    return opt.session.range(40).selectExpr("id", "id * 2 AS lo", "id * 2 + 3 AS hi")


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


def check(opt: Optimizer, frame: DataFrame, *, rewritten: bool | None = True) -> None:
    """The same rows and schema; or the very frame, with a reason.  None: either."""
    plan, either = opt.plan(frame), rewritten is None
    rewritten = plan.rewritten if rewritten is None else rewritten
    assert plan.rewritten == rewritten, plan.explain()
    found = opt.dataframe(frame)
    if rewritten:
        assert [(f.name, f.dataType, f.nullable) for f in found.schema] == [
            (f.name, f.dataType, f.nullable) for f in frame.schema
        ]
        assert rows(found) == rows(frame) == rows(plan.dataframe())
    else:
        assert found is frame
        assert plan.dataframe() is frame
        assert plan.declined or either


@pytest.mark.parametrize("how", ["left_semi", "left_anti"])
def test_a_semi_join_with_itself_is_a_window(opt: Optimizer, how: str) -> None:
    from pyspark.sql.functions import expr

    readings = opt.session.range(60).selectExpr("id % 7 AS k", "id % 5 AS v").where("k > 0 OR v > 2")
    found = readings.alias("x").join(readings.alias("y"), expr("x.k = y.k AND x.v < y.v"), how)
    check(opt, found)
    assert "lower_self_aggregate" in opt.plan(found).rules
    check(opt, found.groupBy("k").count())


JOINS = ("inner", "left", "right", "full", "left_semi", "left_anti")


@pytest.mark.parametrize(
    "how", [f"{filtered} side of {how}" for how in JOINS for filtered in ("left", "right", "both")]
)
def test_filters_of_a_table_that_is_read_twice(opt: Optimizer, how: str) -> None:
    """They are written where they mean the same: none of a full join, and that of an outer side in ON."""
    from pyspark.sql.functions import expr

    table = opt.session.range(60).selectExpr("id", "id % 7 AS k", "if(id % 9 = 0, NULL, id % 5) AS v")
    on = expr("x.k = y.k AND x.v BETWEEN y.v - 1 AND y.v + 1")
    sides = {
        "left": (table.filter("k > 1").filter("v IS NOT NULL").alias("x"), table.alias("y")),
        "right": (table.alias("x"), table.alias("y").filter("k < 4 AND v > 0")),
        "both": (table.alias("x").filter("k > 1"), table.filter("k < 4 OR v IS NULL").alias("y")),
    }
    filtered, _, how = how.partition(" side of ")
    left, right = sides[filtered]
    joined = left.join(right, on, how)
    check(opt, joined.select("x.id", "x.v").filter("id > 3"), rewritten=None)
    assert "dataframe" not in {declined.rule for declined in opt.plan(joined).declined}
    nested = table.alias("w").join(left.join(right, on, "inner"), expr("w.id = x.id"), "full").select("w.id", "x.v")
    check(opt, nested, rewritten=None)
    assert "dataframe" not in {declined.rule for declined in opt.plan(nested).declined}
    above = joined.select("x.k").join(table.filter("id < 20").alias("z"), expr("z.k = x.k"), "left_semi")
    check(opt, above, rewritten=None)


def test_aggregates_of_a_table_that_is_read_twice(opt: Optimizer) -> None:
    from pyspark.sql.functions import avg, col

    table = opt.session.range(60).selectExpr("id", "id % 7 AS k", "id % 5 AS v")
    mean = table.groupBy(col("k").alias("key")).agg((avg("v") * 2).alias("mean"))
    found = table.join(mean, col("k") == col("key")).filter("v < mean")
    check(opt, found)
    assert "lower_self_aggregate" in opt.plan(found).rules
    check(opt, table.join(mean.filter("mean > 3"), col("k") == col("key"), "left").select("id", "mean"), rewritten=None)
    check(opt, table.filter("v > 1").join(mean, col("k") == col("key")).filter("v < mean"), rewritten=None)


@pytest.mark.parametrize("part", range(8))
def test_a_table_that_is_read_in_more_than_one_way(opt: Optimizer, part: int) -> None:
    """The same DataFrames as on Spark Connect (tests/connect_frames_main.py)."""
    frames = SelfJoins(opt.session)
    once, written = frames.both(), frames.by_written_filters()
    for name, frame in list((once | written | frames.read_again()).items())[part::8]:
        check(opt, frame, rewritten=True if name in once else None)
        if name not in written:
            assert bool(ONE_SCAN & set(opt.plan(frame).rules)) == (name in once), name


def test_filters_of_other_tables_beside_one_that_is_read_twice(opt: Optimizer) -> None:
    """They decide how many rows a window sorts, so planning has to see them."""
    from pyspark.sql.functions import avg, col

    table = opt.session.range(60).selectExpr("id", "id % 7 AS k", "id % 5 AS v")
    few = opt.session.createDataFrame([(n, f"n{n}") for n in range(7)], "kind int, name string").filter(
        "name LIKE '%3'"
    )
    mean = table.groupBy(col("k").alias("key")).agg(avg("v").alias("mean"))
    found = table.join(few, col("kind") == col("k")).join(mean, col("key") == col("kind")).filter("v < mean")
    check(opt, found)
    assert "`name` LIKE '%3'" in opt.plan(found).text
    assert "LIKE" not in opt.plan(table.join(few, col("kind") >= col("k")).select("id")).text


def test_what_is_written_and_what_comes_back(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    joined = events.alias("e").join(windows, events.ts.between(windows.lo, windows.hi), "left")
    frame = joined.filter("e.id > 3").select("e.id", windows.id, "ts")
    plan = opt.plan(frame)
    assert "BandJoin" in plan.explain()
    assert "`e`.`ts` >= `t2`.`lo`" in plan.text
    check(opt, frame)
    assert frame.columns == ["id", "id", "ts"]


def test_above_the_join(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    from pyspark.sql import functions as f

    joined = events.alias("e").join(windows.alias("w"), f.expr("e.ts BETWEEN w.lo AND w.hi"))
    check(opt, joined.groupBy("e.id").agg(f.sum("lo").alias("total"), f.countDistinct("hi")))
    check(opt, joined.groupBy().agg(f.count("*"), f.avg("lo")))
    check(opt, joined.select("e.id", "lo").distinct())
    check(opt, joined.select("ts", "lo").orderBy(f.desc("ts"), f.asc_nulls_last("lo")).limit(1000))
    check(opt, joined.withColumn("kind", f.when(f.col("ts") > 50, "late").otherwise("it's {early}")).filter("ts < 90"))
    check(opt, joined.select(f.struct("e.id", "lo").alias("s")).select("s.lo", "s"))
    check(opt, joined.join(windows.alias("x"), f.expr("e.ts = x.lo"), "left_anti"))


def test_set_operations(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    from pyspark.sql import functions as f

    joined = events.alias("e").join(windows.alias("w"), f.expr("e.ts BETWEEN w.lo AND w.hi")).select("e.id", "ts", "lo")
    check(opt, joined.union(joined.filter("ts > 50").limit(1000)).select("lo", "ts"), rewritten=None)
    named = joined.unionByName(events.withColumn("lo", f.lit(1)), allowMissingColumns=True)
    check(opt, named.groupBy("lo").count(), rewritten=None)
    check(opt, joined.select("ts").union(opt.session.range(5)).distinct())
    check(opt, joined.exceptAll(joined.filter("ts < 30")), rewritten=None)
    check(opt, joined.select("ts").intersect(events.select("ts")).orderBy("ts"), rewritten=None)
    check(opt, joined.select("ts").subtract(opt.session.range(90).filter("id > 7")))


def test_a_frame_joined_with_itself_is_one_relation(opt: Optimizer, events: DataFrame) -> None:
    from pyspark.sql import functions as f

    cut = events.selectExpr("id % 20 AS k", "ts")
    frame = cut.alias("a").join(cut.alias("b"), f.expr("a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + 9"))
    check(opt, frame)
    plan = opt.plan(frame)
    assert plan.named
    assert len(plan.named.frames) == 1
    shuffled = events.select("id", f.floor(f.rand(3) * 9).alias("x"))
    check(opt, shuffled.alias("a").join(shuffled.alias("b"), f.expr("a.x BETWEEN b.x AND b.x + 1")), rewritten=None)


def test_the_order_of_rows_stays(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    frame = events.join(windows, (events.ts >= windows.lo) & (events.ts <= windows.hi)).orderBy(
        events.id.desc(), windows.id
    )
    assert opt.dataframe(frame).collect() == frame.collect()
    assert opt.dataframe(frame.limit(7)).collect() == frame.limit(7).collect()


def test_the_call_for_a_join(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    from pyspark.errors import PySparkException

    e, w = events.alias("e"), windows.alias("w")
    for how in ("inner", "left", "right", "full", "semi", "anti"):
        found = opt.join(e, w, "e.ts BETWEEN w.lo AND w.hi", how)
        assert found.columns == (["id", "ts"] if how in ("semi", "anti") else ["id", "ts", "id", "lo", "hi"])
        assert rows(found) == rows(e.join(w, (e.ts >= w.lo) & (e.ts <= w.hi), how))
    assert rows(opt.join(events, windows, ["id"], "full")) == rows(events.join(windows, ["id"], "full"))
    for bad in ("e.ts BETWEEN", "nowhere > 3", "id = 3"):
        with pytest.raises(PySparkException):
            opt.join(e, w, bad)


def test_on_its_own_session_and_installed(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    frame = events.join(windows, (events.ts >= windows.lo) & (events.ts <= windows.hi))
    assert rows(optimized(frame, Options(force=True))) == rows(frame)
    with Optimizer(opt.session, Options(force=True)) as installed:
        assert rows(installed.dataframe(frame)) == rows(frame)


def test_what_is_left_alone(opt: Optimizer, events: DataFrame, windows: DataFrame, spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    def reason(frame: DataFrame) -> str:
        check(opt, frame, rewritten=False)
        return opt.plan(frame).declined[0].reason

    joined = events.join(windows, (events.ts >= windows.lo) & (events.ts <= windows.hi))
    assert "has no join" in reason(events)
    assert "below Sample" in reason(joined.sample(fraction=0.5, seed=3))
    assert "below MapInPandas" in reason(joined.select("ts").mapInPandas(lambda parts: parts, "ts LONG"))
    assert "random function" in reason(joined.filter(f.rand(3) < 0.5))
    volatile = f.udf(lambda x: x * 2, "long").asNondeterministic()
    assert "a function of yours" in reason(joined.select(volatile("ts")))
    assert "another value in another plan" in reason(joined.withColumn("p", f.spark_partition_id()))
    assert "another value in another plan" in reason(joined.select("ts", f.monotonically_increasing_id()))
    hidden = (
        joined.select("ts")
        .sample(fraction=0.5, seed=3)
        .join(windows.select("lo", "hi"), f.expr("ts BETWEEN lo AND hi"))
    )
    assert opt.plan(hidden).rewritten, "the lower join is a relation"
    for text in ("SELECT 1", None, [3]):
        with pytest.raises(TypeError, match="A DataFrame is needed, not a"):
            opt.dataframe(text)  # type: ignore[arg-type]
    other = spark.newSession().range(3)
    assert "another session" in reason(other.crossJoin(other))
    equal = events.join(windows, "id")
    assert opt.dataframe(equal) is equal, "no rule applies"
    stream = opt.session.readStream.format("rate").load()
    assert "is a stream" in opt.plan(stream.join(stream, "value")).declined[0].reason


def test_what_is_not_written_stays_above(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    from pyspark.sql import functions as f

    joined = events.join(windows.drop("id"), (events.ts >= windows.lo) & (events.ts <= windows.hi))
    double = f.udf(lambda x: x * 2, "long")
    struct = f.struct("lo", "hi").alias("s")
    above = {
        "a function of yours": joined.select(double("ts").alias("d"), "lo").filter("d > 20").groupBy("lo").count(),
        "below Generate": joined.select("ts", f.explode(f.array("lo", "hi")).alias("end")),
        "below Expand": joined.rollup("lo", "hi").agg(f.sum("ts"), f.grouping_id()),
        "below Sort": joined.sortWithinPartitions("ts"),
        "below Offset": joined.orderBy("id", "lo").offset(4),
        "is not what its SQL would be": joined.groupBy("lo").pivot("hi", [3, 5]).agg(f.max("ts"), f.min("ts")),
        "": joined.select("ts", struct).withColumn("s", f.col("s").withField("n", f.lit(1)).dropFields("lo")),
    }
    for reason, frame in above.items():
        check(opt, frame)
        plan = opt.plan(frame)
        assert reason in " ".join(declined.reason for declined in plan.declined), plan.declined
        assert len(plan.text.split("JOIN")) >= 2
    check(opt, joined.repartition(3).union(joined.select("*")).filter("ts > 4"))
    twice = joined.select("ts", f.explode(f.array("lo", "hi")).alias("lo")).join(windows, "lo").select(double("ts"))
    check(opt, twice, rewritten=None)
    renamed = joined.select("ts", f.explode(f.array("lo", "hi")).alias("lo"), f.col("id").alias("ts"))
    assert opt.dataframe(renamed).columns == ["ts", "lo", "ts"]


def test_columns_keep_what_is_known_of_them(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    """Their place, even if the rewriting has the same columns in another order, and their metadata."""
    from pyspark.sql import functions as f

    noted = windows.withMetadata("lo", {"comment": "the first"})
    joined = events.join(noted, (events.ts >= noted.lo) & (events.ts <= noted.hi)).select(noted.id, events.id, "lo")
    frame = joined.toDF("w", "e", "lo").select("e", f.explode(f.array("w")).alias("x"), "lo", "w")
    check(opt, frame)
    assert opt.dataframe(frame).schema["lo"].metadata == {"comment": "the first"}


@pytest.mark.parametrize("above", ["nothing", "another column", "a subquery", "an aggregate"])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_the_newest_of_each_by_its_number(
    opt: Optimizer, events: DataFrame, windows: DataFrame, how: str, above: str
) -> None:
    """The as-of join of DataFrames."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    joined = events.alias("e").join(windows.drop("id").alias("w"), f.expr("w.lo <= e.ts"), how)
    numbered = joined.withColumn("rn", f.row_number().over(Window.partitionBy("e.id").orderBy(f.desc("w.lo"))))
    frame = {
        "nothing": lambda: numbered.filter("rn = 1").drop("rn"),
        "another column": lambda: numbered.where(f.col("rn") == 1).select("e.id", "hi"),
        "a subquery": lambda: (
            joined.select("e.id", "ts", "lo", "hi")
            .withColumn("rn", f.row_number().over(Window.partitionBy("id").orderBy(f.desc("lo"))))
            .filter("rn = 1")
        ),
        "an aggregate": lambda: numbered.filter("rn = 1").groupBy("lo").agg(f.count("*")),
    }[above]()
    check(opt, frame)
    assert "nearest" in " ".join(opt.plan(frame).rules), opt.plan(frame).explain("trace")


@pytest.mark.parametrize("how", ["inner", "left"])
def test_the_newest_of_each_where_both_sides_have_the_names(
    opt: Optimizer, events: DataFrame, windows: DataFrame, how: str
) -> None:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    starts = windows.select("id", f.col("lo").alias("ts"), "hi").alias("w")
    joined = events.alias("e").join(starts, f.expr("w.ts <= e.ts"), how)
    numbered = joined.withColumn("rn", f.row_number().over(Window.partitionBy("e.id").orderBy(f.desc("w.ts"))))
    frame = numbered.filter("rn = 1").select("e.id", "e.ts", f.col("w.ts").alias("start"), "hi")
    check(opt, frame)
    assert "nearest" in " ".join(opt.plan(frame).rules), opt.plan(frame).explain("trace")


def test_a_window_over_a_join(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    left = events.alias("e")
    pairs = left.join(windows.alias("w"), f.expr("e.ts BETWEEN w.lo AND w.hi"))
    by = Window.partitionBy("w.id").orderBy("ts", "e.id")
    functions = {
        "l": f.lag("ts", 2, -1).over(by),
        "n": f.lead("ts").over(by),
        "r": f.rank().over(by),
        "p": f.percent_rank().over(by),
        "t": f.ntile(3).over(by),
        "s": f.sum("ts").over(by.rowsBetween(-2, 1)),
        "m": f.max("ts").over(by.rangeBetween(Window.unboundedPreceding, 0).orderBy("ts")),
        "q": f.avg("ts").over(Window.partitionBy("w.id")) / f.count("*").over(Window.partitionBy(f.col("e.id") % 3)),
        "f": f.first("ts", ignorenulls=True).over(by),
        "v": f.nth_value("ts", 2).over(by),
    }
    for name, function in functions.items():
        plan = opt.plan(pairs.withColumn(name, function))
        assert plan.rewritten, name
        assert plan.above is None or name == "q", "Spark puts the windows of one item in another order"
    check(opt, pairs.select("w.lo", *(function.alias(name) for name, function in functions.items())))
    check(opt, pairs.withColumn("r", f.rank().over(by)).withColumn("x", f.max("r").over(by)).filter("x > 1"))


def test_one_of_each_key(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    joined = events.join(windows.select("lo", "hi"), (events.ts >= windows.lo) & (events.ts <= windows.hi))
    for frame in (joined.dropDuplicates(["lo"]), joined.dropDuplicates(["lo", "hi"]).filter("hi > 9")):
        plan = opt.plan(frame)
        assert plan.rewritten
        assert plan.dataframe().schema == frame.schema
        assert rows(plan.dataframe().select("lo")) == rows(frame.select("lo"))
    check(opt, joined.dropDuplicates(["hi", "lo", "ts", "id"]))


def test_a_frame_that_is_cached_is_not_computed_again(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    from pyspark.sql import functions as f

    joined = events.join(windows, (events.ts >= windows.lo) & (events.ts <= windows.hi)).cache()
    try:
        check(opt, joined, rewritten=False)
        check(opt, joined.filter("lo > 3").select("ts"), rewritten=False)
        assert "cached" in opt.plan(joined).declined[0].reason
        above = joined.select("ts").join(windows.select("lo", "hi"), f.expr("ts BETWEEN lo AND hi"))
        check(opt, above)
        assert len(opt.plan(above).text.split("JOIN")) == 2, "the cached join is a relation"
    finally:
        joined.unpersist()
    check(opt, joined)


def test_metrics_are_those_of_the_users_action(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    """Planning may read a frame, and the first to read it would set its metrics."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen = Observation()
    observed = events.filter("ts < 50").observe(seen, f.count("*").alias("n"), f.max("ts").alias("last"))
    joined = observed.join(windows, (observed.ts >= windows.lo) & (observed.ts <= windows.hi))
    assert opt.dataframe(joined) is joined
    joined.collect()
    assert seen.get == {"n": 100, "last": 49}


def test_a_setting_that_the_frame_was_made_under(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    """What the analyzed plan holds of the settings cannot be written as SQL under others, and stays as it is."""
    from pyspark.sql import functions as f

    for key, then, now in (
        ("spark.sql.ansi.enabled", "false", "true"),
        ("spark.sql.session.timeZone", "Asia/Tokyo", "Europe/Berlin"),
    ):
        before = str(opt.session.conf.get(key))
        try:
            opt.session.conf.set(key, then)
            joined = events.join(windows, (events.ts >= windows.lo) & (events.ts <= windows.hi))
            frame = joined.select((f.col("ts") * 2).alias("d"), f.timestamp_seconds("ts").cast("string").alias("t"))
            opt.session.conf.set(key, now)
            check(opt, frame)
            assert "is not what its SQL would be" in opt.plan(frame).declined[0].reason
        finally:
            opt.session.conf.set(key, before)


def test_a_fault_of_ours_costs_nobody_a_frame(
    opt: Optimizer, events: DataFrame, windows: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("broken")

    frame = events.join(windows, (events.ts >= windows.lo) & (events.ts <= windows.hi))
    for place in ("plan_reader.PlanReader.read", "statement._difference"):
        with monkeypatch.context() as patch:
            patch.setattr(f"dovetail.executor.dataframes.{place}", broken)
            quiet = Optimizer(opt.session, Options(force=True, strict=False))
            assert quiet.dataframe(frame) is frame
            assert "RuntimeError: broken" in quiet.plan(frame).declined[0].reason


def rows_or_error(frame: DataFrame) -> list[str] | str | None:
    """The rows of a frame, or the condition of Spark's error."""
    from pyspark.errors import PySparkException

    try:
        return rows(frame)
    except PySparkException as error:
        return error.getCondition()


# A random program over DataFrames: two or three relations, conditions and clauses of every kind that is written, and
# some that are not.
COLUMNS = (
    """
x; x + 1; -x; x % 3; x * 2L; x / 2; x div 2; abs(x); CAST(x AS STRING); CAST(x AS DOUBLE); x BETWEEN 1 AND 3; x <=> 2
x IN (1, 2, NULL); NOT (x = 1 OR n > 2); greatest(x, 2); try_add(x, 1); if(x > 2, s, 'q'); CASE x WHEN 1 THEN 'o' END
d; d + INTERVAL 3 DAY; date_add(d, 2); datediff(d, DATE '2024-01-05'); year(d); trunc(d, 'MONTH'); d::timestamp
t; t - INTERVAL '1:30' HOUR TO MINUTE; unix_micros(t); date_trunc('hour', t); t - TIMESTAMP '2024-01-03'
timestampdiff(HOUR, t, TIMESTAMP '2024-01-03'); TIMESTAMP_NTZ '2024-01-02 03:04:05.678'; INTERVAL 2 MONTH
n; n * 1.50; CAST(n AS DECIMAL(20, 4)); round(n, 1); -n; n IS NULL; nvl(n, 0); coalesce(n, x)
s; upper(s); concat(s, '{', 'it''s'); substring(s, 2); s LIKE 'a%'; s || x; length(s)
r.a; r; r.b.c; array(x, 1)[0]; named_struct('a', x); map(s, x); map(s, x)['a']; f; isnan(f); f + 1
-0.0D; CAST('nan' AS DOUBLE); 1e300D; -9223372036854775808; 127Y; NULL; X'00FF'; rand(5) > 2
""".strip()
    .replace("\n", "; ")
    .split("; ")
)
FILTERS = (
    *("l.x > 1", "l.x IN (1, 2, 3)", "l.n IS NOT NULL", "l.s <> 'b' OR l.x = 2"),
    "l.d BETWEEN DATE '2024-01-02' AND DATE '2024-01-20'",
)
BANDS = (
    *("l.x BETWEEN r.x AND r.x + 2", "l.x >= r.x AND l.x < r.x + 3", "l.d BETWEEN r.d AND r.d + INTERVAL 2 DAY"),
    *("l.t >= r.t AND l.t <= r.t + INTERVAL 5 HOUR", "l.x = r.x AND l.d BETWEEN r.d AND date_add(r.d, 3)", "l.s = r.s"),
    *("l.n BETWEEN r.n - 1.5 AND r.n + 1.5", "l.f >= r.f AND l.f <= r.f + 2"),
    "l.x <=> r.x AND l.t BETWEEN r.t AND r.t",
)
HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti", "cross")


def relation(opt: Optimizer, random: Random) -> DataFrame:
    size = random.choice((0, 3, 12))
    return opt.session.range(size).selectExpr(
        f"IF(id % 7 = 6, NULL, id * {random.choice((1, 2))} % 5) AS x",
        f"DATE '2024-01-01' + CAST(id * {random.randrange(4)} AS INT) AS d",
        f"timestamp_seconds(1704067200 + id * {random.choice((1800, 7200, 50_000))}) AS t",
        "CAST(IF(id % 5 = 4, NULL, id * 0.75) AS DECIMAL(10, 2)) AS n",
        "IF(id % 6 = 5, NULL, substring('abcab', CAST(id % 3 AS INT) + 1, 2)) AS s",
        "CASE WHEN id % 8 = 7 THEN CAST('nan' AS DOUBLE) WHEN id % 5 = 3 THEN -0.0D ELSE id / 2 END AS f",
        "named_struct('a', id, 'b', named_struct('c', id % 2)) AS r",
    )


def program(opt: Optimizer, random: Random) -> DataFrame:
    """A DataFrame made as people make them."""
    from pyspark.sql import functions as f

    left, right = relation(opt, random), relation(opt, random)
    if random.random() < 0.2:
        right = left  # joined with itself
    how = random.choice(HOWS)
    if random.random() < 0.3:
        frame = (
            left.alias("l")
            .filter(random.choice(FILTERS))
            .join(right.select("x", "d", "n", f.col("s").alias("s2")), "x", how)
        )
        names = ["x"]
    else:
        on = f.expr(random.choice(BANDS))
        frame = left.alias("l").join(right.alias("r"), on, how)
        names = ["l.x", "l.d"]
        if how not in ("left_semi", "left_anti") and random.random() < 0.5:
            names += ["r.x", "r.n"]
        if random.random() < 0.4:
            frame = frame.filter(f.expr(random.choice(FILTERS)))
        if random.random() < 0.6 and how in ("left_semi", "left_anti"):
            return frame.selectExpr(*random.sample(COLUMNS, 3))
    step = random.randrange(8)
    if step == 0:
        return frame.groupBy(names[0]).agg(f.count("*"), f.max(names[-1]), f.sum(f.expr(names[0])).alias("total"))
    if step == 1:
        return frame.select(*names, f.expr(f"count({names[0]}) OVER ()") if random.random() < 0.3 else f.lit(3))
    if step == 2:
        return frame.select(*names).distinct()
    if step == 3:
        return frame.agg(
            f.expr(f"count(DISTINCT {names[0]})"), f.expr(f"min({names[0]}) FILTER (WHERE {names[0]} > 1)")
        )
    if step == 4:
        return frame.select(names).withColumn("more", f.lit(1.5)).dropDuplicates()
    if step == 5:
        return frame.select(names[0]).union(relation(opt, random).select("x")).union(frame.select(names[0]))
    if step == 6:  # rows that are equal may change places
        return frame.select(*names).orderBy(*(f.desc(name) for name in names)).limit(random.choice((0, 3, 100)))
    return frame.select(names[0], f.expr(random.choice(COLUMNS[:1])) if names == ["x"] else f.lit("é{"))


@pytest.mark.hypothesis
@settings(max_examples=examples(2))
@given(seed=st.integers(0, 10**9))
def test_the_same_rows_columns_and_types(opt: Optimizer, seed: int) -> None:
    frame = program(opt, Random(seed))
    found = opt.dataframe(frame)
    if found is not frame:
        assert [(f.name, f.dataType, f.nullable) for f in found.schema] == [
            (f.name, f.dataType, f.nullable) for f in frame.schema
        ]
        assert rows_or_error(found) == rows_or_error(frame)  # map(s, x) raises where s is NULL


@pytest.mark.parametrize("column", COLUMNS)
def test_an_expression_is_written_or_refused(opt: Optimizer, column: str) -> None:
    left = relation(opt, Random(1))
    right = opt.session.range(5).selectExpr("id AS lo", "id + 2 AS hi")
    frame = left.join(right, (left.x >= right.lo) & (left.x <= right.hi)).selectExpr(column, "lo")
    plan = opt.plan(frame)
    assert plan.rewritten or plan.declined
    assert plan.rewritten == (column not in UNWRITTEN), plan.explain()
    found = opt.dataframe(frame)
    assert rows(found) == rows(frame)


UNWRITTEN = ("rand(5) > 2",)


def test_a_long_chain_of_columns(opt: Optimizer, events: DataFrame, windows: DataFrame) -> None:
    """Each ``withColumn`` is an operator, and would be a subquery in another."""
    from pyspark.sql import functions as f

    frame = events.join(windows.select("lo", "hi"), f.expr("ts BETWEEN lo AND hi"))
    for n in range(250):
        frame = frame.withColumn(f"c{n % 7}", f.col("ts") + n)
        if n == 15:
            check(opt, frame)
    check(opt, frame)
    assert "more than 30 operators" in opt.plan(frame).declined[0].reason


def test_names_of_every_kind(opt: Optimizer) -> None:
    """Names with what the text of a plan is made of, and two that differ in case only."""
    names = ["a#1", "b,c#2L", "d`e", "f.g", "h AS i#3", "J", "j", "k\nl", "ä", "", "{m}", "n", "n"]
    left = opt.session.range(9).selectExpr("id AS x", *(f"id * 2 + {n} AS c{n}" for n in range(len(names))))
    left = left.toDF("x", *names)
    right = opt.session.range(5).selectExpr("id AS lo", "id + 2 AS hi")
    joined = left.join(right, (left.x >= right.lo) & (left.x <= right.hi))
    check(opt, joined)
    check(opt, joined.groupBy("`a#1`", "`d``e`", "`f.g`", "`k\nl`", "`{m}`").count())
    check(opt, joined.select("`h AS i#3`", "`b,c#2L`", "ä").orderBy("ä").limit(10))
