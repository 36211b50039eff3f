"""Rows of the left side that go to Python and back with every type of Spark."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dovetail import Optimizer

LEFT = {
    "year_month": "INTERVAL '1-2' YEAR TO MONTH",
    "least_months": "INTERVAL '-178956970-8' YEAR TO MONTH",
    "years": "INTERVAL '-3' YEAR",
    "months": "INTERVAL '5' MONTH",
    "no_months": "CAST(NULL AS INTERVAL MONTH)",
    "calendar": "make_interval(1, -2, 3, 4, 5, 6, 7.000001)",
    "array_of_months": "array(INTERVAL '1' MONTH, NULL)",
    "struct_of_months": "named_struct('a', id, 'b.c', INTERVAL '-5-11' YEAR TO MONTH)",
    "no_struct": "CAST(NULL AS STRUCT<a: INTERVAL YEAR>)",
    "map_of_months": "map('k', INTERVAL '1' MONTH)",
    "seconds": "INTERVAL '-1 02:03:04.5' DAY TO SECOND",
    "far_date": "DATE '+12024-01-01'",
    "far_time": "TIMESTAMP '-0100-01-01 00:00:00.000001'",
    "local_time": "TIMESTAMP_NTZ '+294247-01-10 04:00:54.775807'",
    "binary": "X'00ff'",
    "variant": "parse_json('{\"a\": 1}')",
    "nan": "DOUBLE('NaN')",
    "minus_zero": "-0.0D",
    "nothing": "NULL",
    "wide": "CAST('99999999999999999999.999999999999999999' AS DECIMAL(38, 18))",
    "text": "'a\\u0000b'",
}


def test_left_rows_come_back_as_they_went(opt: Optimizer) -> None:
    columns = ", ".join(f"{text} AS {name}" for name, text in LEFT.items())
    left = f"(SELECT id, {columns} FROM range(3) LIMIT 3)"
    query = f"SELECT l.*, n.name FROM {left} l LEFT JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON l.id = n.id"
    plan = opt.plan(query)
    assert "RowLookupJoin" in plan.explain()
    found = plan.dataframe()
    plain = found.sparkSession.sql(f"SELECT *, element_at(array('a', 'b', NULL), int(id + 1)) AS name FROM {left}")
    assert found.schema.simpleString() == plain.schema.simpleString()
    texts = ["id", "name", *(f"to_json({n})" if n == "variant" else f"CAST({n} AS STRING)" for n in LEFT)]
    assert as_texts(found.selectExpr(*texts)) == as_texts(plain.selectExpr(*texts))


def as_texts(frame: Any) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in frame.collect())
