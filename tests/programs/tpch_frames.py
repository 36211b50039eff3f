"""The queries of TPC-H as programs write them: with DataFrames and no SQL.  ``QUERIES[name](spark)`` makes one."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that programs use
from pyspark.sql.functions import col, lit

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession


def revenue() -> Column:
    """What a line brings."""
    return col("l_extendedprice") * (1 - col("l_discount"))


def h01(spark: SparkSession) -> DataFrame:
    """Price summary."""
    lines = spark.table("lineitem").filter(col("l_shipdate") <= date(1998, 9, 2))
    return (
        lines.groupBy("l_returnflag", "l_linestatus")
        .agg(
            F.sum("l_quantity").alias("sum_qty"),
            F.sum("l_extendedprice").alias("sum_base_price"),
            F.sum(revenue()).alias("sum_disc_price"),
            F.sum(revenue() * (1 + col("l_tax"))).alias("sum_charge"),
            F.avg("l_quantity").alias("avg_qty"),
            F.avg("l_extendedprice").alias("avg_price"),
            F.avg("l_discount").alias("avg_disc"),
            F.count("*").alias("count_order"),
        )
        .orderBy("l_returnflag", "l_linestatus")
    )


def h02(spark: SparkSession) -> DataFrame:
    """The cheapest supplier of each part: an aggregate that is joined to what it aggregates."""
    europe = (
        spark.table("region")
        .filter(col("r_name") == "EUROPE")
        .join(spark.table("nation"), col("r_regionkey") == col("n_regionkey"))
        .join(spark.table("supplier"), col("n_nationkey") == col("s_nationkey"))
        .join(spark.table("partsupp"), col("s_suppkey") == col("ps_suppkey"))
    )
    brass = spark.table("part").filter((col("p_size") == 15) & col("p_type").like("%BRASS"))
    offers = brass.join(europe, col("p_partkey") == col("ps_partkey"))
    least = offers.groupBy(col("ps_partkey").alias("least_part")).agg(F.min("ps_supplycost").alias("least"))
    return (
        offers.join(least, (col("p_partkey") == col("least_part")) & (col("ps_supplycost") == col("least")))
        .select("s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment")
        .orderBy(col("s_acctbal").desc(), "n_name", "s_name", "p_partkey")
        .limit(100)
    )


def h03(spark: SparkSession) -> DataFrame:
    """Orders that are not yet shipped."""
    customers = spark.table("customer").filter(col("c_mktsegment") == "BUILDING")
    orders = spark.table("orders").filter(col("o_orderdate") < date(1995, 3, 15))
    lines = spark.table("lineitem").filter(col("l_shipdate") > date(1995, 3, 15))
    return (
        customers.join(orders, col("c_custkey") == col("o_custkey"))
        .join(lines, col("l_orderkey") == col("o_orderkey"))
        .groupBy("l_orderkey", "o_orderdate", "o_shippriority")
        .agg(F.sum(revenue()).alias("revenue"))
        .select("l_orderkey", "revenue", "o_orderdate", "o_shippriority")
        .orderBy(col("revenue").desc(), "o_orderdate")
        .limit(10)
    )


def h04(spark: SparkSession) -> DataFrame:
    """Orders with a late line, by a semi join."""
    orders = spark.table("orders").filter(_from_until(col("o_orderdate"), date(1993, 7, 1), date(1993, 10, 1)))
    late = spark.table("lineitem").filter(col("l_commitdate") < col("l_receiptdate"))
    return (
        orders.join(late, orders.o_orderkey == late.l_orderkey, "left_semi")
        .groupBy("o_orderpriority")
        .agg(F.count("*").alias("order_count"))
        .orderBy("o_orderpriority")
    )


def h05(spark: SparkSession) -> DataFrame:
    """Revenue of local suppliers."""
    orders = spark.table("orders").filter(_from_until(col("o_orderdate"), date(1994, 1, 1), date(1995, 1, 1)))
    return (
        spark.table("region")
        .filter(col("r_name") == "ASIA")
        .join(spark.table("nation"), col("r_regionkey") == col("n_regionkey"))
        .join(spark.table("supplier"), col("n_nationkey") == col("s_nationkey"))
        .join(spark.table("lineitem"), col("s_suppkey") == col("l_suppkey"))
        .join(orders, col("l_orderkey") == col("o_orderkey"))
        .join(
            spark.table("customer"), (col("o_custkey") == col("c_custkey")) & (col("c_nationkey") == col("s_nationkey"))
        )
        .groupBy("n_name")
        .agg(F.sum(revenue()).alias("revenue"))
        .orderBy(col("revenue").desc())
    )


def h06(spark: SparkSession) -> DataFrame:
    """Revenue that other discounts would bring; no join at all."""
    lines = spark.table("lineitem").where(
        "l_shipdate >= DATE'1994-01-01' AND l_shipdate < DATE'1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 "
        "AND l_quantity < 24"
    )
    return lines.agg(F.sum(col("l_extendedprice") * col("l_discount")).alias("revenue"))


def h07(spark: SparkSession) -> DataFrame:
    """Trade between two nations; one table twice, by aliases."""
    first, second = spark.table("nation").alias("n1"), spark.table("nation").alias("n2")
    lines = spark.table("lineitem").filter(col("l_shipdate").between(date(1995, 1, 1), date(1996, 12, 31)))
    one, two = col("n1.n_name"), col("n2.n_name")
    return (
        spark.table("supplier")
        .join(lines, col("s_suppkey") == col("l_suppkey"))
        .join(spark.table("orders"), col("o_orderkey") == col("l_orderkey"))
        .join(spark.table("customer"), col("c_custkey") == col("o_custkey"))
        .join(first, col("s_nationkey") == col("n1.n_nationkey"))
        .join(second, col("c_nationkey") == col("n2.n_nationkey"))
        .filter(((one == "FRANCE") & (two == "GERMANY")) | ((one == "GERMANY") & (two == "FRANCE")))
        .select(
            one.alias("supp_nation"),
            two.alias("cust_nation"),
            F.year("l_shipdate").alias("l_year"),
            revenue().alias("v"),
        )
        .groupBy("supp_nation", "cust_nation", "l_year")
        .agg(F.sum("v").alias("revenue"))
        .orderBy("supp_nation", "cust_nation", "l_year")
    )


def h08(spark: SparkSession) -> DataFrame:
    """A market share, by `when`."""
    first, second = spark.table("nation").alias("n1"), spark.table("nation").alias("n2")
    orders = spark.table("orders").filter(col("o_orderdate").between(date(1995, 1, 1), date(1996, 12, 31)))
    volumes = (
        spark.table("part")
        .filter(col("p_type") == "ECONOMY ANODIZED STEEL")
        .join(spark.table("lineitem"), col("p_partkey") == col("l_partkey"))
        .join(spark.table("supplier"), col("l_suppkey") == col("s_suppkey"))
        .join(orders, col("l_orderkey") == col("o_orderkey"))
        .join(spark.table("customer"), col("o_custkey") == col("c_custkey"))
        .join(first, col("c_nationkey") == col("n1.n_nationkey"))
        .join(spark.table("region").filter(col("r_name") == "AMERICA"), col("n1.n_regionkey") == col("r_regionkey"))
        .join(second, col("s_nationkey") == col("n2.n_nationkey"))
        .select(F.year("o_orderdate").alias("o_year"), revenue().alias("volume"), col("n2.n_name").alias("nation"))
    )
    brazil = F.when(col("nation") == "BRAZIL", col("volume")).otherwise(0)
    share = (F.sum(brazil) / F.sum("volume")).alias("mkt_share")
    return volumes.groupBy("o_year").agg(share).orderBy("o_year")


def h09(spark: SparkSession) -> DataFrame:
    """Profit by nation and year."""
    return (
        spark.table("part")
        .filter(col("p_name").contains("green"))
        .join(spark.table("lineitem"), col("p_partkey") == col("l_partkey"))
        .join(spark.table("supplier"), col("s_suppkey") == col("l_suppkey"))
        .join(
            spark.table("partsupp"), (col("ps_suppkey") == col("l_suppkey")) & (col("ps_partkey") == col("l_partkey"))
        )
        .join(spark.table("orders"), col("o_orderkey") == col("l_orderkey"))
        .join(spark.table("nation"), col("s_nationkey") == col("n_nationkey"))
        .withColumn("amount", revenue() - col("ps_supplycost") * col("l_quantity"))
        .withColumn("o_year", F.year("o_orderdate"))
        .groupBy(col("n_name").alias("nation"), "o_year")
        .agg(F.sum("amount").alias("sum_profit"))
        .orderBy("nation", col("o_year").desc())
    )


def h10(spark: SparkSession) -> DataFrame:
    """Returned items."""
    orders = spark.table("orders").filter(_from_until(col("o_orderdate"), date(1993, 10, 1), date(1994, 1, 1)))
    keys = ("c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment")
    return (
        spark.table("customer")
        .join(orders, col("c_custkey") == col("o_custkey"))
        .join(spark.table("lineitem").filter("l_returnflag = 'R'"), col("l_orderkey") == col("o_orderkey"))
        .join(spark.table("nation"), col("c_nationkey") == col("n_nationkey"))
        .groupBy(*keys)
        .agg(F.sum(revenue()).alias("revenue"))
        .select("c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment")
        .orderBy(F.desc("revenue"))
        .limit(20)
    )


def h11(spark: SparkSession) -> DataFrame:
    """Stock above a share of the total, by a cross join with one row."""
    german = (
        spark.table("partsupp")
        .join(spark.table("supplier"), col("ps_suppkey") == col("s_suppkey"))
        .join(spark.table("nation").filter("n_name = 'GERMANY'"), col("s_nationkey") == col("n_nationkey"))
        .withColumn("stock", col("ps_supplycost") * col("ps_availqty"))
    )
    least = german.agg((F.sum("stock") * lit(0.0001).cast("decimal(11,10)")).alias("least"))
    return (
        german.groupBy("ps_partkey")
        .agg(F.sum("stock").alias("value"))
        .crossJoin(least)
        .filter(col("value") > col("least"))
        .select("ps_partkey", "value")
        .orderBy(F.desc("value"))
    )


def h12(spark: SparkSession) -> DataFrame:
    """Late lines by the way of shipping."""
    lines = spark.table("lineitem").filter(
        col("l_shipmode").isin("MAIL", "SHIP")
        & (col("l_commitdate") < col("l_receiptdate"))
        & (col("l_shipdate") < col("l_commitdate"))
        & _from_until(col("l_receiptdate"), date(1994, 1, 1), date(1995, 1, 1))
    )
    urgent = col("o_orderpriority").isin("1-URGENT", "2-HIGH")
    return (
        spark.table("orders")
        .join(lines, col("o_orderkey") == col("l_orderkey"))
        .groupBy("l_shipmode")
        .agg(
            F.sum(F.when(urgent, 1).otherwise(0)).alias("high_line_count"),
            F.sum(F.when(~urgent, 1).otherwise(0)).alias("low_line_count"),
        )
        .orderBy("l_shipmode")
    )


def h13(spark: SparkSession) -> DataFrame:
    """Customers by their number of orders, by a left join with a filter of its right side."""
    orders = spark.table("orders").filter(~col("o_comment").like("%special%requests%"))
    return (
        spark.table("customer")
        .join(orders, col("c_custkey") == col("o_custkey"), "left")
        .groupBy("c_custkey")
        .agg(F.count("o_orderkey").alias("c_count"))
        .groupBy("c_count")
        .agg(F.count("*").alias("custdist"))
        .orderBy(F.desc("custdist"), F.desc("c_count"))
    )


def h14(spark: SparkSession) -> DataFrame:
    """The share of promotions."""
    lines = spark.table("lineitem").filter(_from_until(col("l_shipdate"), date(1995, 9, 1), date(1995, 10, 1)))
    promo = F.when(col("p_type").startswith("PROMO"), revenue()).otherwise(0)
    joined = lines.join(spark.table("part"), col("l_partkey") == col("p_partkey"))
    return joined.agg((lit(100.00).cast("decimal(5,2)") * F.sum(promo) / F.sum(revenue())).alias("promo_revenue"))


def h15(spark: SparkSession) -> DataFrame:
    """The best supplier: a DataFrame that is used twice."""
    lines = spark.table("lineitem").filter(_from_until(col("l_shipdate"), date(1996, 1, 1), date(1996, 4, 1)))
    suppliers = lines.groupBy(col("l_suppkey").alias("supplier_no")).agg(F.sum(revenue()).alias("total_revenue"))
    most = suppliers.agg(F.max("total_revenue").alias("most"))
    return (
        spark.table("supplier")
        .join(suppliers, col("s_suppkey") == col("supplier_no"))
        .join(most, col("total_revenue") == col("most"))
        .select("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue")
        .orderBy("s_suppkey")
    )


def h16(spark: SparkSession) -> DataFrame:
    """Suppliers of parts, by an anti join."""
    parts = spark.table("part").filter(
        (col("p_brand") != "Brand#45")
        & ~col("p_type").startswith("MEDIUM POLISHED")
        & col("p_size").isin(49, 14, 23, 45, 19, 3, 36, 9)
    )
    bad = spark.table("supplier").filter(col("s_comment").like("%Customer%Complaints%"))
    return (
        spark.table("partsupp")
        .join(parts, col("p_partkey") == col("ps_partkey"))
        .join(bad, col("ps_suppkey") == col("s_suppkey"), "left_anti")
        .groupBy("p_brand", "p_type", "p_size")
        .agg(F.countDistinct("ps_suppkey").alias("supplier_cnt"))
        .orderBy(F.desc("supplier_cnt"), "p_brand", "p_type", "p_size")
    )


def h17(spark: SparkSession) -> DataFrame:
    """Small quantities: lines against the average of their part."""
    lines = spark.table("lineitem")
    parts = spark.table("part").filter((col("p_brand") == "Brand#23") & (col("p_container") == "MED BOX"))
    average = lines.groupBy(col("l_partkey").alias("key")).agg((F.avg("l_quantity") * 0.2).alias("few"))
    return (
        lines.join(parts, col("p_partkey") == col("l_partkey"))
        .join(average, col("key") == col("p_partkey"))
        .filter(col("l_quantity") < col("few"))
        .agg((F.sum("l_extendedprice") / 7.0).alias("avg_yearly"))
    )


def h18(spark: SparkSession) -> DataFrame:
    """Large orders."""
    large = (
        spark.table("lineitem")
        .groupBy(col("l_orderkey").alias("large"))
        .agg(F.sum("l_quantity").alias("n"))
        .filter(col("n") > 300)
    )
    return (
        spark.table("orders")
        .join(large, col("o_orderkey") == col("large"), "semi")
        .join(spark.table("customer"), col("c_custkey") == col("o_custkey"))
        .join(spark.table("lineitem"), col("o_orderkey") == col("l_orderkey"))
        .groupBy("c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice")
        .agg(F.sum("l_quantity"))
        .orderBy(F.desc("o_totalprice"), "o_orderdate")
        .limit(100)
    )


def h19(spark: SparkSession) -> DataFrame:
    """Discounted revenue: three alternatives in one condition."""
    quantity, size, box = col("l_quantity"), col("p_size"), col("p_container")

    def alternative(brand: str, boxes: str, kinds: str, least: int, sizes: int) -> Column:
        names = [f"{boxes} {kind}" for kind in kinds.split()]
        amounts = quantity.between(least, least + 10) & size.between(1, sizes)
        return (col("p_brand") == brand) & box.isin(names) & amounts

    alternatives = (
        alternative("Brand#12", "SM", "CASE BOX PACK PKG", 1, 5)
        | alternative("Brand#23", "MED", "BAG BOX PKG PACK", 10, 10)
        | alternative("Brand#34", "LG", "CASE BOX PACK PKG", 20, 15)
    )
    return (
        spark.table("lineitem")
        .filter(col("l_shipmode").isin("AIR", "AIR REG") & (col("l_shipinstruct") == "DELIVER IN PERSON"))
        .join(spark.table("part"), (col("p_partkey") == col("l_partkey")) & alternatives)
        .agg(F.sum(revenue()).alias("revenue"))
    )


def h20(spark: SparkSession) -> DataFrame:
    """Suppliers with too much in stock."""
    shipped = (
        spark.table("lineitem")
        .filter(_from_until(col("l_shipdate"), date(1994, 1, 1), date(1995, 1, 1)))
        .groupBy("l_partkey", "l_suppkey")
        .agg((F.sum("l_quantity") * 0.5).alias("half"))
    )
    forest = spark.table("part").filter(col("p_name").startswith("forest"))
    stock = (
        spark.table("partsupp")
        .join(forest, col("ps_partkey") == col("p_partkey"), "left_semi")
        .join(shipped, (col("l_partkey") == col("ps_partkey")) & (col("l_suppkey") == col("ps_suppkey")))
        .filter(col("ps_availqty") > col("half"))
    )
    return (
        spark.table("supplier")
        .join(spark.table("nation").filter("n_name = 'CANADA'"), col("s_nationkey") == col("n_nationkey"))
        .join(stock, col("s_suppkey") == col("ps_suppkey"), "left_semi")
        .select("s_name", "s_address")
        .orderBy("s_name")
    )


def h21(spark: SparkSession) -> DataFrame:
    """Suppliers that alone were late: a table joined with itself, by aliases."""
    lines = spark.table("lineitem")
    one, two, three = lines.alias("l1"), lines.alias("l2"), lines.alias("l3")
    late = one.filter("l1.l_receiptdate > l1.l_commitdate")
    other = (col("l2.l_orderkey") == col("l1.l_orderkey")) & (col("l2.l_suppkey") != col("l1.l_suppkey"))
    third = (col("l3.l_orderkey") == col("l1.l_orderkey")) & (col("l3.l_suppkey") != col("l1.l_suppkey"))
    return (
        late.join(two, other, "left_semi")
        .join(three.filter("l3.l_receiptdate > l3.l_commitdate"), third, "left_anti")
        .join(spark.table("orders").filter("o_orderstatus = 'F'"), col("o_orderkey") == col("l1.l_orderkey"))
        .join(spark.table("supplier"), col("s_suppkey") == col("l1.l_suppkey"))
        .join(spark.table("nation").filter("n_name = 'SAUDI ARABIA'"), col("s_nationkey") == col("n_nationkey"))
        .groupBy("s_name")
        .agg(F.count("*").alias("numwait"))
        .orderBy(F.desc("numwait"), "s_name")
        .limit(100)
    )


def h22(spark: SparkSession) -> DataFrame:
    """Customers without orders above the average, which a first action computes."""
    codes = ["13", "31", "23", "29", "30", "18", "17"]
    customers = spark.table("customer").withColumn("cntrycode", F.substring("c_phone", 1, 2))
    here = customers.filter(col("cntrycode").isin(codes))
    average = here.filter(col("c_acctbal") > 0).agg(F.avg("c_acctbal")).first()
    assert average is not None
    return (
        here.filter(col("c_acctbal") > average[0])
        .join(spark.table("orders"), col("o_custkey") == col("c_custkey"), "left_anti")
        .groupBy("cntrycode")
        .agg(F.count("*").alias("numcust"), F.sum("c_acctbal").alias("totacctbal"))
        .orderBy("cntrycode")
    )


def _from_until(day: Column, first: date, after: date) -> Column:
    return (day >= first) & (day < after)


QUERIES: dict[str, Callable[[SparkSession], DataFrame]] = {
    query.__name__: query
    for query in (
        h01, h02, h03, h04, h05, h06, h07, h08, h09, h10, h11, h12, h13, h14, h15, h16, h17, h18, h19, h20, h21, h22,
    )
}  # fmt: skip
