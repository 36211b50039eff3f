"""Accumulators of joined rows, of any division into epochs and merged in any way, tell what the query tells."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from functools import partial, reduce
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from dovetail import Optimizer, Options
from dovetail.executor.catalog.spark_catalog import SparkCatalog
from dovetail.optimizer.views.materialization import _infer_types
from dovetail.optimizer.views.materialized_view import query_rows, query_rows_as
from dovetail.planner.sql.from_sql import from_sql
from dovetail.rules.context import Context
from dovetail.rules.stream.accumulators import Accumulators
from dovetail.rules.stream.view_query import view_query
from effort import SEED, examples
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SCHEMA = (
    "k INT, j BIGINT, s SMALLINT, d DECIMAL(12, 2), w DECIMAL(30, 4), v DOUBLE, t STRING, u STRING, h DECIMAL(38, 0), "
    "ts TIMESTAMP_NTZ, p STRUCT<a: INT, b: INT>"
)
GROUPS = ("x.k", "y.t", "x.k % 2", "year(y.ts)", "x.d", "coalesce(x.k, y.k)", "x.p.a")
RAISES = "not a number"
NUMBERS = (
    "CAST(x.u AS INT)",
    "y.h",
    "x.d * (1 - y.d)",
    "x.k",
    "x.j",
    "y.s",
    "x.d",
    "y.d * 2",
    "x.k + y.s",
    "y.w",
    "x.v",
    "x.p.a",
    "x.p.b",
    "x.P.B",
    "CASE WHEN x.k > 1 THEN y.d END",
)
OTHERS = ("y.t", "y.u", "x.ts", "x.v", "*")


share = at_least(0.4)


def rows(random: Random, count: int) -> list[tuple[Any, ...]]:
    def some(*values: Any) -> Any:
        return random.choice((None, *values))

    return [
        (
            some(0, 1, 2),
            some(2**58, -(2**58), 7),
            some(1, -3, 32767),
            some(Decimal("1.05"), Decimal("-9999999999.99"), Decimal("0.33")),
            some(Decimal("1.0005"), Decimal(10) ** 25),
            some(0.1, float("nan"), float("inf"), -0.0),
            some("a", "b"),
            some("1", "23", RAISES),
            some(Decimal(123456789012345678901234567890123456), Decimal("9" * 35)),
            None,
            some((random.choice((None, 3)), random.choice((4, 5)))),
            random.choice(("insert", "delete")),
        )
        for _ in range(count)
    ]


def query(random: Random) -> str:
    """A query that groups a join."""
    groups = random.sample(GROUPS, random.randrange(3))

    def aggregate() -> str:
        function = random.choice(("count", "count", "sum", "sum", "avg", "avg", "min", "max"))
        argument = number(function) if function in ("sum", "avg") else random.choice((*NUMBERS, *OTHERS))
        return f"{function}({argument})" if argument != "*" or function == "count" else "count(*)"

    def number(function: str) -> str:
        """An argument.  An average adds large integers as doubles in Spark, in the order in which they come."""
        found = random.choice(NUMBERS)
        return "x.j % 1000" if (function, found) == ("avg", "x.j") else found

    def item() -> str:
        function = random.choice(("sum", "avg"))
        total = f"{function}({number(function)})"
        if random.random() < 0.1:
            return random.choice(("any(x.k > 0)", "bool_or(x.k > 0)", "first(x.v)", "rand() >= 0"))
        plain = (aggregate(), f"coalesce({total}, 0)", f"count(*) + {total}", *groups)
        return random.choice((*plain, *(f"concat({g}, count(y.k))" for g in groups)))

    first = random.choice(("i0", "k", "j", "v"))  # columns have the last three names as well
    items = f"{item()} AS {first}" + "".join(f", {item()} AS i{n}" for n in range(1, random.randrange(1, 4)))
    keys = list(groups)
    if groups and random.random() < 0.5:
        items += f", {groups[0]} AS g"
        keys[0] = random.choice(("g", str(items.count(" AS "))))
    by = f" GROUP BY {random.choice((', '.join(keys), 'ALL'))}" if groups else ""
    wanted = random.choice((first, f"coalesce({first}, {first})", aggregate()))
    havings = ("", f" HAVING {wanted} IS NOT NULL", " HAVING count(*) > 1", " HAVING any(x.k > 0)")
    having = random.choice(havings) if groups else ""
    order = f" ORDER BY {', '.join([wanted, *groups])} LIMIT 3" if groups else ""
    order = random.choice(("", order))
    return f"SELECT {items}, count(*) AS n FROM x JOIN y ON x.k = y.k{by}{having}{order}"


@pytest.mark.hypothesis
@pytest.mark.parametrize("changes", [False, True])
def test_any_division_tells_the_same(spark: SparkSession, share: Share, changes: bool) -> None:
    random, session = Random(f"accumulators {changes} {SEED}"), spark.newSession()
    opt = Optimizer(session, Options())
    for name in "xy":
        kinds = session.createDataFrame(rows(random, 14), f"{SCHEMA}, op STRING")
        if not changes:  # a row that makes the query raise an error, and stays
            kinds = kinds.where(f"u IS DISTINCT FROM '{RAISES}'")
        kinds = kinds.localCheckpoint()
        (kinds if changes else kinds.drop("op")).createOrReplaceTempView(name)
        if changes:
            opt.declare_changelog(name, "op")
    for _ in range(examples(1 / 8)):
        text = query(random)
        try:
            schema = session.sql(text).schema
        except AnalysisException:  # Spark takes some names of items for those of columns, and then misses others
            continue
        catalog = SparkCatalog(session, declared=opt.declarations.changelogs())
        ctx = Context(catalog, opt.options)
        kept = view_query(from_sql(text)[0], ctx)
        joined = session.sql(kept.joined)
        try:
            query_rows_as(joined, kept.above, schema)
        except AnalysisException:  # opt.materialize refuses it, where it would keep joined rows
            continue
        if changes:
            texts = ", ".join(f.name for f in joined.schema if f.dataType.simpleString() == "string") or "''"
            goes = f"array_contains(array({texts}), '{RAISES}') IS TRUE OR hash(*) % 3 = 0"
            joined = joined.withColumn("op", F.expr(f"IF({goes}, 'delete', 'insert')"))
        own = kept.accumulated(partial(_infer_types, joined.limit(0), kept.rows))
        if share.count(isinstance(own, Accumulators)):
            assert isinstance(own, Accumulators)
            check(text, schema, joined, own, kept.above, changes=changes)


def check(text: str, schema: StructType, joined: DataFrame, own: Accumulators, above: str, *, changes: bool) -> None:
    if changes:  # what comes and goes as well is not there
        there = query_rows_as(joined.where("op = 'insert'").drop("op"), above, schema)
        joined = joined.unionAll(joined.where("op = 'delete'").withColumn("op", F.lit("insert")))
    else:
        there = query_rows_as(joined, above, schema)
    numbered = joined.withColumn("__epoch", F.expr("abs(hash(*)) % 4")).localCheckpoint()
    epochs = [numbered.where(f"__epoch = {n}").drop("__epoch") for n in range(4)]
    parts = [query_rows(epoch, own.of_rows) for epoch in epochs]
    merged = query_rows(parts[0].unionAll(parts[1]), own.merged)
    found = query_rows_as(reduce(DataFrame.unionAll, [merged, *parts[2:]]), own.above, schema)
    assert [f.dataType for f in found.schema] == [f.dataType for f in there.schema], text
    assert Counter(map(repr, found.collect())) == Counter(map(repr, there.collect())), text
