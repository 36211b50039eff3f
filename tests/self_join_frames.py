"""DataFrames that read a table in more than one way, for any kind of session."""

from __future__ import annotations

from typing import Any

ONE_SCAN = {"lower_self_aggregate", "lower_merged_scalar_aggregates"}
"""The rules that read such a table once."""


class SelfJoins:
    """DataFrames over one table, with a function for each answer that a rule may give."""

    def __init__(self, session: Any) -> None:
        from pyspark.sql import functions

        self.session, self.f = session, functions
        self.same_key = functions.col("k") == functions.col("key")
        self.less = functions.expr("x.k = y.k AND x.v < y.v")

    def table(self) -> Any:
        """Rows with NULLs and duplicates, made anew as by a program that calls ``spark.table`` twice."""
        return self.session.range(60).selectExpr("id", "id % 7 AS k", "IF(id % 9 = 0, NULL, id % 5) AS v")

    def mean(self, rows: Any) -> Any:
        """The mean of each key."""
        return rows.groupBy(self.f.col("k").alias("key")).agg((self.f.avg("v") * 2).alias("mean"))

    def below_mean(self, rows: Any, mean: Any) -> Any:
        """The rows that are below the mean of their key."""
        return rows.join(mean, self.same_key).filter("v < mean")

    def both(self) -> dict[str, Any]:
        """Those whose table is read once, on every kind of session."""
        f, table = self.f, self.table()
        x, y, mean = table.alias("x"), table.alias("y"), self.mean(table)
        names = self.session.range(7).selectExpr("id AS i", "concat('n#', id) AS s").filter("s > 'n#3'")
        few = table.filter("v > 1")
        most = table.groupBy(table["k"].alias("key")).agg(f.max(table["v"]).alias("most"))
        return {
            "semi": few.alias("x").join(few.alias("y"), self.less, "left_semi"),
            "anti": few.alias("x").join(few.alias("y"), self.less, "left_anti"),
            "mean": self.below_mean(table, mean),
            "mean of filtered rows": self.below_mean(few, self.mean(few)),
            "columns of the table": table.join(most, f.expr("k = key")).filter(table["v"] == f.col("most")),
            "a text like a column": self.below_mean(table.join(names, f.expr("i = k")), mean),
            "made twice": self.below_mean(self.table(), self.mean(self.table())),
            "union": table.select("k").union(self.below_mean(table, mean).select("k")),
            "below another alias": x.join(y, f.expr("x.k = y.k AND x.v <> y.v"), "left_semi").alias("z").select("z.k"),
        }

    def by_written_filters(self) -> dict[str, Any]:
        """Those whose filters or aggregates over other rows than a table's are written on Spark Connect alone."""
        f, table = self.f, self.table()
        x, y, mean = table.alias("x"), table.alias("y"), self.mean(table)
        late, differs = x.filter("x.v > 1"), "{0}.k = x.k AND {0}.v <> x.v"
        of_others = f.expr(differs.format("y"))
        third = table.filter("v > 1").alias("z"), f.expr(differs.format("z")), "left_anti"

        def count(condition: str, name: str) -> Any:
            return table.filter(condition).agg(f.count("*").alias(name))

        return {
            "semi, left side filtered": late.join(y, self.less, "left_semi"),
            "anti, left side filtered": late.join(y, self.less, "left_anti"),
            "semi, right side filtered": x.join(y.filter("y.v > 2"), self.less, "left_semi"),
            "semi and anti": late.join(y, of_others, "left_semi").join(*third),
            "mean, filtered table": self.below_mean(table.filter("v > 1"), mean),
            "mean, filtered": table.join(mean.filter("mean > 3"), self.same_key).select("id", "mean"),
            "counts": count("v > 1", "a").crossJoin(count("v < 2", "b")).crossJoin(count("k = 3", "c")),
        }

    def read_again(self) -> dict[str, Any]:
        """Those whose table is read again: other rows, or what cannot be written."""
        f, table, session = self.f, self.table(), self.session
        x, y = table.alias("x"), table.alias("y")
        other = session.range(60).selectExpr("id", "id % 7 AS k", "IF(id % 9 = 0, NULL, id % 4) AS v")
        identity = f.udf(lambda v: v, "long")
        ends, late, early = table.select("id", "k"), x.filter("x.v > 1"), y.filter("y.v < 3")
        sums = table.groupBy("k").agg(f.sum("v").alias("n"))
        nearly = f.expr("a.n BETWEEN b.n AND b.n + 1")
        means = {
            "other rows": self.mean(other),
            "fewer rows": self.mean(table.filter("v > 1")),
            "the first rows": self.mean(table.orderBy("id").limit(20)),
            "a sample": self.mean(table.sample(0.5, 7)),
            "distinct rows": self.mean(table.select("k", "v").distinct()),
            "a rollup": table.rollup(f.col("k").alias("key")).agg(f.avg("v").alias("mean")),
            "keys of a UDF": table.groupBy(identity("k").alias("key")).agg(f.avg("v").alias("mean")),
        }
        return {
            **{f"mean of {name}": self.below_mean(table, mean) for name, mean in means.items()},
            "semi, UDF": x.filter(identity("x.v") > 1).join(y, self.less, "left_semi"),
            "semi, random": x.filter(f.rand(5) < 0.5).join(y, self.less, "left_semi"),
            "semi, text like a column": x.filter("concat('n#', x.k) > 'n#2'").join(y, self.less, "left_semi"),
            "semi, other rows": x.join(other.alias("y"), self.less, "left_semi"),
            "semi, hidden column": ends.filter("v > 1")
            .alias("x")
            .join(ends.alias("y"), f.expr("x.k = y.k AND x.id < y.id"), "left_semi"),
            "left": x.join(y.filter("y.v > 1"), self.less, "left").select("x.id", "y.v"),
            "full": late.join(early, self.less, "full").select("x.id", "y.v"),
            "full above a join": table.alias("w")
            .join(late.join(early, self.less), f.expr("w.id = x.id"), "full")
            .select("w.id", "y.v"),
            "the same aggregate": sums.alias("a").join(sums.alias("b"), nearly).select("a.k", "b.n"),
        }
