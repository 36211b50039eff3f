"""Every type that is derived without Spark is the type that Spark gives: a sweep over expressions of all types."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import pytest

from dovetail.executor.catalog.spark_catalog import SparkCatalog
from dovetail.planner.bind.names import Resolver, Source
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.types.schema import Column, SqlType, sql_type
from effort import SEED, fuzzing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = (
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
    *("DECIMAL(5,2)", "DECIMAL(10,0)", "DECIMAL(20,0)", "DECIMAL(30,2)", "DECIMAL(38,10)", "DECIMAL(38,0)"),
)
OTHERS = (
    *("STRING", "BOOLEAN", "DATE", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "BINARY"),
    *("INTERVAL DAY TO SECOND", "INTERVAL MONTH", "ARRAY<INT>", "STRUCT<a: INT, b: DECIMAL(5,2)>"),
)
COLUMNS = {f"c{n}": type_ for n, type_ in enumerate((*NUMBERS, *OTHERS))}
LITERALS = (
    *("1", "0", "-3", "2147483648", "-2147483648", "9223372036854775808", "1.5", ".5", "0.001", "1e3", "2D", "3L"),
    *("1.5BD", "'x'", "NULL", "TRUE", "DATE '2024-01-01'", "TIMESTAMP '2024-01-01 00:00:00'"),
    *("TIMESTAMP '2024-01-01 00:00:00+01:00'", "TIMESTAMP_NTZ '2024-01-01 00:00:00'", "INTERVAL '1' DAY"),
    *("INTERVAL 2 HOURS", "INTERVAL '1' MONTH", "current_date()", "current_timestamp()"),
)
ONE = (
    *("-{a}", "({a})", "abs({a})", "+{a}", "max({a})", "min({a})", "sum({a})", "avg({a})", "count({a})", "count(*)"),
    *("sum(DISTINCT {a})", "ceil({a})", "floor({a})", "round({a})", "round({a}, 1)", "bround({a})", "ceil({a}, 1)"),
    *("nullif({a}, {a})", "year({a})", "month({a})", "day({a})", "hour({a})", "second({a})", "quarter({a})"),
    *("weekofyear({a})", "dayofweek({a})", "dayofyear({a})", "unix_seconds({a})", "unix_millis({a})"),
    *("unix_micros({a})", "unix_date({a})", "unix_timestamp({a})", "to_unix_timestamp({a})", "to_date({a})"),
    *("date({a})", "trunc({a}, 'MM')", "date_trunc('HOUR', {a})", "last_day({a})", "add_months({a}, 1)"),
    *("date_add({a}, 1)", "date_sub({a}, 1)", "dateadd(DAY, 1, {a})", "dateadd(HOUR, 1, {a})", "timestamp({a})"),
    *("{a}.a", "{a}.b", "{a} IS NULL", "NOT {a}", "{a}::STRING", "extract(YEAR FROM {a})", "weekday({a})"),
    *(f"CAST({{a}} AS {type_})" for type_ in (*NUMBERS[2:8], *OTHERS[:5], "TIMESTAMP", "CHAR(3)")),
    *("try_cast({a} AS INT)", "try_cast({a} AS TIMESTAMP)", "CASE WHEN {a} IS NULL THEN {a} END"),
)
TWO = (
    *("{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} % {b}", "{a} DIV {b}", "pmod({a}, {b})"),
    *("try_add({a}, {b})", "try_subtract({a}, {b})", "try_multiply({a}, {b})", "try_divide({a}, {b})"),
    *("coalesce({a}, {b})", "greatest({a}, {b})", "least({a}, {b})", "nullif({a}, {b})", "ifnull({a}, {b})"),
    *("if({a} IS NULL, {a}, {b})", "CASE WHEN {a} IS NULL THEN {a} ELSE {b} END", "nvl2({a}, {a}, {b})"),
    *("CASE {a} WHEN {b} THEN {a} END", "datediff({a}, {b})", "timestampdiff(HOUR, {a}, {b})", "{a} + {b} - {a}"),
    *("abs({a} - {b})", "coalesce({a} * {b}, 0)", "sum({a} + {b})", "{a} < {b}", "{a} || {b}"),
)
ONE_OPERAND = (  # not worth a place in pairs
    *("BINARY", "ARRAY<INT>", "STRUCT<a: INT, b: DECIMAL(5,2)>", "DECIMAL(38,0)", "INTERVAL MONTH", "BOOLEAN", "FLOAT"),
    *("0", "-3", ".5", "0.001", "-2147483648", "9223372036854775808", "2D", "3L", "1.5BD", "TRUE", "current_date()"),
    *("TIMESTAMP '2024-01-01 00:00:00+01:00'", "TIMESTAMP_NTZ '2024-01-01 00:00:00'", "INTERVAL '1' MONTH"),
    *("INTERVAL 2 HOURS", "current_timestamp()"),
)
SETTINGS = {
    "as they are": {},
    "not ansi": {"spark.sql.ansi.enabled": "false"},
    "timestamps without a zone": {"spark.sql.timestampType": "TIMESTAMP_NTZ"},
    "legacy numbers": {
        "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "true",
        "spark.sql.legacy.literal.pickMinimumPrecision": "false",
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    },
}
_BATCH = 60


def expressions() -> Iterator[str]:
    yield from LITERALS
    operands = (*COLUMNS, *LITERALS)
    yield from (one.format(a=a) for one, a in product(ONE, operands))
    some = [o for o in operands if COLUMNS.get(o, o) not in ONE_OPERAND]
    yield from (two.format(a=a, b=b) for two, a, b in product(TWO, some, some))


def given(session: SparkSession, asked: list[str]) -> dict[str, SqlType]:
    """The types that Spark gives, but for expressions that it refuses."""
    from pyspark.errors import AnalysisException, ParseException

    items = ", ".join(f"{text} AS x{n}" for n, text in enumerate(asked))
    try:
        schema = session.sql(f"SELECT {items} FROM typed").schema
    except (AnalysisException, ParseException):
        if len(asked) == 1:
            return {}
        half = len(asked) // 2
        return given(session, asked[:half]) | given(session, asked[half:])
    return {text: sql_type(field.dataType.simpleString()) for text, field in zip(asked, schema, strict=True)}


def _type_of_column(name: re.Match[str]) -> str:
    return COLUMNS[name.group()]


@pytest.mark.parametrize("which", SETTINGS)
def test_types_are_those_of_spark(spark: SparkSession, which: str) -> None:
    session = spark.newSession()
    for name, value in SETTINGS[which].items():
        session.conf.set(name, value)
    session.sql(f"SELECT {', '.join(f'CAST(NULL AS {t}) AS {n}' for n, t in COLUMNS.items())}").createOrReplaceTempView(
        "typed"
    )
    names = Resolver(SparkCatalog(session), {})
    found = names.catalog.columns(("typed",))
    assert found is not None
    sources = (Source(("typed",), tuple(Column(c.name, c.type) for c in found)),)
    derived: dict[str, SqlType] = {}
    for text in expressions():
        if zlib.crc32(f"{SEED} {which} {text}".encode()) % (4 if fuzzing() else 24):
            continue
        tree = Scalar(text).known
        try:
            type_ = tree and names.type_of(tree, sources)
        except Refused:
            continue
        if type_:
            derived[text] = type_
    texts = list(derived)
    wrong, seen = [], 0
    for at in range(0, len(texts), _BATCH):
        for text, theirs in given(session, texts[at : at + _BATCH]).items():
            seen += 1
            if derived[text] != theirs:
                wrong.append(f"{re.sub(r'c[0-9]+', _type_of_column, text)}: {derived[text]}, not {theirs}")
    assert wrong == []
    assert seen > len(texts) / 4
