from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tomllib

from dovetail.executor.connectors.http import HttpSource
from dovetail.executor.connectors.postgres import PostgresSource
from dovetail.executor.connectors.source_settings import build_source
from dovetail.executor.connectors.spark_table import SparkTable
from dovetail.executor.connectors.sqlite import SQLiteSource
from dovetail.executor.connectors.values import arrow_type
from dovetail.planner.errors import SourceError

CATALOG = """
[lookup.Customers]
kind = "postgresql"
table = "shop.customers"
uri_env = "CUSTOMERS_DB"

[lookup.Products]
kind = "sqlite"
path = "products.db"
query = "SELECT id, 2 * price AS twice FROM products"
types = {twice = "DECIMAL(10, 2)"}
unique_keys = [["id"]]

[lookup.Rates]
kind = "http"
url = "https://rates.example/lookup"
columns = {currency = "STRING", day = "DATE", rate = "DECIMAL(12, 6)"}
keys = ["currency", "day"]
headers_env = {Authorization = "RATES_TOKEN"}

[lookup.Countries]
kind = "spark"
path = "countries.csv"
format = "csv"
options = {header = "true"}
"""


def test_sources_of_every_kind() -> None:
    tables = tomllib.loads(CATALOG)["lookup"]
    made = {name: build_source(name, settings, Path("/data")) for name, settings in tables.items()}
    assert [type(source) for source in made.values()] == [PostgresSource, SQLiteSource, HttpSource, SparkTable]
    assert [repr(source) for source in made.values()] == [
        "PostgreSQL table shop.customers",
        "SQLite query",
        "HTTP service https://rates.example/lookup",
        "csv files",
    ]
    assert made["Rates"].schema() == pa.schema(
        [("currency", pa.string()), ("day", pa.date32()), ("rate", pa.decimal128(12, 6))]
    )
    countries = made["Countries"]
    assert isinstance(countries, SparkTable)
    assert countries.path == "/data/countries.csv"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "lookup.T: kind is None; possible: http, postgresql, spark, sqlite"),
        ({"kind": "postgres"}, "lookup.T: kind is 'postgres'; did you mean 'postgresql'?"),
        ({"kind": "sqlite", "path": "x", "tabel": "t"}, "lookup.T.tabel: there is no such key; did you mean 'table'?"),
        ({"kind": "sqlite", "table": "t"}, "lookup.T: it has no path; write path ="),
        ({"kind": "sqlite", "path": 3}, "lookup.T.path: 3 is not a text; write for example"),
        ({"kind": "sqlite", "path": "x"}, "lookup.T: SQLiteSource takes either a table or a query"),
        (
            {"kind": "postgresql", "table": "t", "uri": "host=x"},
            "T.uri: there is no such key; did you mean 'uri_env'?",
        ),
        ({"kind": "http", "url": "http://x", "columns": {"a": "money"}, "keys": ["a"]}, "'money' is not a type"),
    ],
)
def test_what_is_wrong_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SourceError) as refused:
        build_source("T", settings)
    assert message in str(refused.value)


@pytest.mark.parametrize(("text", "type_"), [("integer", pa.int32()), ("Decimal(5)", pa.decimal128(5, 0))])
def test_types_as_spark_writes_them(text: str, type_: pa.DataType) -> None:
    assert arrow_type(text) == type_
