"""The number by which rows are presorted: in the order of positions, and never an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dovetail.planner.physical.presort import presort
from dovetail.planner.types.schema import sql_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = {
    "DATE": "date_add(DATE '1950-01-01', CAST(id AS INT))",
    "TIMESTAMP": "timestamp_micros(id * 1000003)",
    "TIMESTAMP_NTZ": "CAST(timestamp_micros(id * 86400000) AS TIMESTAMP_NTZ)",
    "INT": "CAST(id - 20000 AS INT)",
    "BIGINT": "id * id * id",
    "DECIMAL(38,10)": "CAST(id AS DECIMAL(38,10)) * 1000000",
    "DOUBLE": "id / 7D - 3000",
    "FLOAT": "CAST(id / 8 AS FLOAT)",
}
EXTREMES = {
    "DATE": ("DATE '-5877641-06-24'", "DATE '+5881580-07-11'"),
    "TIMESTAMP": ("timestamp_micros(-9223372036854775808)", "timestamp_micros(9223372036854775807)"),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ '-290308-12-22 00:00:00'", "TIMESTAMP_NTZ '+294247-01-10 04:00:54.775807'"),
    "INT": ("INT('-2147483648')", "INT('2147483647')"),
    "BIGINT": ("BIGINT('-9223372036854775808')", "BIGINT('9223372036854775807')"),
    "DECIMAL(38,10)": ("-9999999999999999999999999999BD", "9999999999999999999999999999BD"),
    "DOUBLE": ("double('NaN')", "double('-Infinity')", "1.7976931348623157E308D", "-0D"),
    "FLOAT": ("float('NaN')", "float('Infinity')"),
}


@pytest.mark.parametrize("keys", [[], ["k"]], ids=["all rows", "of a key"])
@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("of", STEPS)
def test_rows_come_in_the_order_of_the_window(spark: SparkSession, of: str, keys: list[str], descending: bool) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.ansi.enabled", "true")
    number = presort(keys, "at", sql_type(of), "r", descending=descending)
    rows = f"SELECT 'x' AS k, CAST({STEPS[of]} AS {of}) AS at, id * 7919 % 4 AS r FROM range(20000)"
    way = "DESC" if descending else "ASC"
    out_of_order = (
        f"SELECT count(*) FROM (SELECT n, lag(n) OVER (ORDER BY at {way}, r) AS before "
        f"FROM (SELECT at, r, {number} AS n FROM ({rows}))) WHERE n < before"
    )
    wraps = 1 if keys else 0  # negative numbers come after others in the 46 bits
    broken = session.sql(out_of_order).head()
    assert broken is not None
    assert broken[0] <= wraps
    values = session.sql(f"SELECT count(DISTINCT {number}), count(DISTINCT at, r) FROM ({rows})").head()
    assert values is not None
    assert values[0] == values[1]


@pytest.mark.parametrize("of", EXTREMES)
def test_extremes_raise_nothing(spark: SparkSession, of: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "true")
    values = ", ".join(f"(CAST({value} AS {of}))" for value in (*EXTREMES[of], "NULL"))
    for keys in ([], ["at"]):
        number = presort(keys, "at", sql_type(of), "1")
        rows = session.sql(f"SELECT {number} FROM VALUES {values} AS t(at)").collect()
        assert len(rows) == len(EXTREMES[of]) + 1


@pytest.mark.parametrize("of", ["STRING", "BOOLEAN", "BINARY"])
def test_other_types_have_no_number(of: str) -> None:
    assert presort(["k"], "at", sql_type(of), "r") == ""
    assert presort(["k"], "at", None, "r") == ""
