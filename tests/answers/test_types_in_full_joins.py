"""A band join that keeps rows once, with columns of every type in its condition.

What bins copy is found by its columns, so that their values must be told apart: of some types Spark cannot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from comparing import assert_same, few_rows
from dovetail import Optimizer, Options
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.4)

# A type, and values of it that are hard to tell apart.
TYPES = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("1Y", "-1Y"),
    "BIGINT": ("1", "2"),
    "DECIMAL(5,2)": ("1.50", "-0.01"),
    "FLOAT": ("0.0F", "-0.0F", "CAST('NaN' AS FLOAT)"),
    "DOUBLE": ("0.0D", "-0.0D", "CAST('NaN' AS DOUBLE)"),
    "STRING": ("'a'", "'A'", "'a '"),
    "STRING COLLATE UTF8_LCASE": ("'a'", "'A'"),
    "BINARY": ("X'00'", "X'0000'"),
    "DATE": ("DATE '2024-01-01'", "DATE '0001-01-01'"),
    "TIMESTAMP": ("TIMESTAMP '2024-03-31 02:30:00'", "TIMESTAMP '1970-01-01 00:00:00'"),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ '2024-03-31 02:30:00'", "TIMESTAMP_NTZ '1970-01-01 00:00:00'"),
    "INTERVAL DAY TO SECOND": ("INTERVAL '1' DAY", "INTERVAL '24' HOUR"),
    "INTERVAL YEAR TO MONTH": ("INTERVAL '1' YEAR", "INTERVAL '12' MONTH"),
    "INTERVAL": ("make_interval(0, 0, 0, 1)", "make_interval(0, 0, 0, 0, 24)"),
    "VOID": ("NULL",),
    "ARRAY<INT>": ("array(1, 2)", "array(2, 1)", "array()"),
    "ARRAY<DOUBLE>": ("array(0.0D)", "array(-0.0D)"),
    "STRUCT<a: INT, b: STRING>": ("named_struct('a', 1, 'b', 'x')", "named_struct('a', 1, 'b', CAST(NULL AS STRING))"),
    "STRUCT<d: DOUBLE>": ("named_struct('d', 0.0D)", "named_struct('d', -0.0D)"),
    "STRUCT<s: STRING COLLATE UTF8_LCASE>": (
        "named_struct('s', 'a' COLLATE UTF8_LCASE)",
        "named_struct('s', 'A' COLLATE UTF8_LCASE)",
    ),
    "MAP<STRING, INT>": ("map('a', 1)", "map('a', 2)"),
    "VARIANT": ("parse_json('{\"a\": 1}')", "parse_json('1')"),
}
# On the row that bins copy, or on the other one.
CONDITIONS = (
    "(p.id IS NULL) <> (q.c IS NULL)",
    "(q.id IS NULL) = (p.c IS NOT NULL)",
    "(p.id > 1 OR q.c IS NOT NULL)",
    "to_csv(struct(CAST(q.c AS STRING))) <> concat(p.k, '0.0')",
    "CAST(q.c AS STRING) = CAST(p.c AS STRING)",
)
KINDS = ("FULL", "LEFT", "RIGHT")


@pytest.mark.parametrize("type_", TYPES)
def test_the_same_rows_as_plain_spark(session: SparkSession, share: Share, type_: str) -> None:
    values = [*TYPES[type_], "NULL", TYPES[type_][0]]
    rows = (f"SELECT {n} AS id, {n % 3} AS k, {n} AS lo, {n + 2} AS hi, {v} AS c" for n, v in enumerate(values))
    cast = "" if type_ == "VOID" else f"CAST(c AS {type_}) AS "
    text = f"SELECT id, k, lo, hi, {cast}c FROM ({' UNION ALL '.join(rows)})"
    few_rows(session, "t", text)
    optimizer = Optimizer(session, Options(force=True, strict=True))
    for number, condition in enumerate(CONDITIONS):
        if "CAST(" in condition and type_ in ("VOID", "VARIANT", "INTERVAL", "MAP<STRING, INT>"):
            continue
        kind = KINDS[(number + len(type_)) % 3] if number else "FULL"
        band = "p.k BETWEEN q.lo AND q.hi"
        query = f"SELECT p.id, q.id AS i FROM t p {kind} JOIN t q ON {band} AND {condition}"
        plan = optimizer.plan(query)
        if share.count(plan.rewritten):
            assert_same(session, query, plan)


def test_what_may_be_another_value_is_not_computed_twice(session: SparkSession) -> None:
    columns = "id, id AS lo, id + 3 AS hi, CAST(id AS STRING) AS c"
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW t AS SELECT {columns} FROM range(20)")
    call = "hex(aes_encrypt(concat(p.c, q.c), '0000111122223333')) >= 'a'"
    plan = Optimizer(session, Options(force=True, strict=True)).plan(
        f"SELECT p.id, q.id AS i FROM t p FULL JOIN t q ON p.id BETWEEN q.lo AND q.hi AND {call}"
    )
    assert not plan.rewritten
    assert "may have another value when it is evaluated twice" in str(plan.declined)
