"""What lookups are asked for, how they are read, and by what it is decided; without Spark."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.optimizer.planning.validation import has_same_tokens
from dovetail.planner.catalog import Numbers, SequentialCatalog
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.hints.blocks import hints_in
from dovetail.planner.hints.lookup import read_lookup_hint
from dovetail.planner.logical import Scan
from dovetail.planner.offline_catalog.catalog import CatalogFile
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.sql.lookup_views import lookups_of, needs_sql

CATALOG = read_catalog(Path(__file__).parents[2] / "golden_plans" / "catalogs" / "lookups.toml")
AT = "FOR SYSTEM_TIME AS OF PROCTIME()"


class Sampled(SequentialCatalog):
    """The catalog of the golden plans, with a left side of so many rows whose first keys are ``sample``."""

    def __init__(self, rows: int | None, sample: list[float | None] | None):
        self.rows, self.sample = rows, sample

    def __getattr__(self, name: str) -> Any:
        return getattr(CATALOG, name)

    def statistics(self, relation: str) -> Statistics:
        return Statistics(self.rows, None, plain=True)

    def measure(self, query: str) -> tuple[Numbers, ...] | None:
        assert "xxhash64(o.product_id)" in query
        return None if self.sample is None else tuple((value,) for value in self.sample)


def plan(text: str, catalog: Any = CATALOG, **options: Any) -> Plan:
    return plan_sql(text, catalog, Options(strict=True, **options))


def with_products(rows: int, *, scans: bool = True) -> CatalogFile:
    """The catalog with so many products."""
    declared = dict(CATALOG.declarations)
    products = declared[("Products",)].lookup
    assert products is not None
    declared[("Products",)] = replace(declared[("Products",)], lookup=replace(products, rows=rows, scans=scans))
    return replace(CATALOG, declarations=tuple(declared.items()))


# Reading


@pytest.mark.parametrize(
    ("behind", "alias", "time"),
    [
        ("FOR SYSTEM_TIME AS OF o.proc_time AS c", "c", "o.proc_time"),
        ("FOR SYSTEM_TIME AS OF o.proc_time c", "c", "o.proc_time"),
        ("FOR SYSTEM_TIME AS OF o.proc_time", "C", "o.proc_time"),
        ("FOR SYSTEM_TIME AS OF PROCTIME() AS c(a, b)", "c", "PROCTIME()"),
        ("FOR SYSTEM_TIME AS OF PROCTIME()", "C", "PROCTIME()"),
        ("for system_time as of current_timestamp c", "c", "current_timestamp"),
        ("FOR SYSTEM_TIME AS OF coalesce(o.a, o.b) - INTERVAL 1 DAY AS c", "c", "coalesce(o.a, o.b) - INTERVAL 1 DAY"),
        ("TIMESTAMP AS OF '2020-01-01' c", "c", "'2020-01-01'"),
        ("VERSION AS OF 3", "C", None),
        ("AS system_time", "system_time", None),
    ],
)
def test_the_time_of_a_table_is_read(behind: str, alias: str, time: str | None) -> None:
    text = f"SELECT * FROM o JOIN s.C {behind} ON o.k = c.id"
    logical, _ = from_sql(text)
    (scan,) = (n for n in logical.walk() if isinstance(n, Scan) and n.name == ("s", "C"))
    assert (scan.alias, scan.as_of and scan.as_of.text) == (alias, time)
    assert has_same_tokens(logical, text)


@pytest.mark.parametrize(
    ("option", "field", "value"),
    [
        ("'timeout'='300s'", "timeout", 300.0),
        ("'timeout' = '3 min'", "timeout", 180.0),
        ("'fixed-delay'='100 ms'", "delay", 0.1),
        ("'cache-ttl'='1 h'", "cache_ttl", 3600.0),
        ("'cache-size'='0'", "cache_size", 0),
        ("'output-mode'='allow_unordered'", "ordered", False),
        ("'retry-predicate'='lookup_miss'", "retry_missing", True),
        ("'async'='true'", "asynchronous", True),
        ("'skew'='true'", "shuffle", True),
        ("'batch'='500'", "batch", 500),
    ],
)
def test_options_of_the_hint(option: str, field: str, value: object) -> None:
    (hint,) = hints_in(f"SELECT /*+ LOOKUP('table'='c', {option}) */ 1")
    read = read_lookup_hint(hint)
    assert (read.table, read.options[field], read.complaints) == ("c", value, ())


@pytest.mark.parametrize(
    "option",
    [
        "'timeout'='0s'",
        "'timeout'='300'",
        "'batch'='0'",
        "'batch'='1e3'",
        "'shuffle'='TRUE'",
        "'batch'=5",
        "batch",
        "'a'='b'",
        "'timeout'='999999999 d'",
        "'fixed-delay'='864000001 s'",
        "'batch'='٣'",
    ],
)
def test_values_are_strict(option: str) -> None:
    (hint,) = hints_in(f"SELECT /*+ LOOKUP('table'='c', {option}) */ 1")
    read = read_lookup_hint(hint)
    assert (read.table, read.options, len(read.complaints)) == ("c", {}, 1)


@given(
    option=st.sampled_from(["timeout", "fixed-delay", "cache-ttl", "batch", "max-attempts", "cache-size", "capacity"]),
    number=st.integers(0, 10**30).map(str) | st.integers(1, 6000).map(lambda n: "9" * n),
    unit=st.sampled_from(["", " ", "ms", "s", " sec", "m", " min", "h", "d", " d", "D", "µs"]),
)
def test_a_number_is_one_that_can_be_used_or_a_complaint(option: str, number: str, unit: str) -> None:
    (hint,) = hints_in(f"SELECT /*+ LOOKUP('table'='c', '{option}'='{number}{unit}') */ 1")
    read = read_lookup_hint(hint)
    passed = threading.Event()
    passed.set()
    for value in read.options.values():
        assert isinstance(value, int | float)
        assert passed.wait(value)  # what takes too long a time raises
    if option != "capacity":
        assert len(read.options) + len(read.complaints) == 1


# Asking


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (
            f"SELECT 1 FROM Orders o JOIN Customers {AT} c ON o.customer_id = c.id AND o.total > 3 WHERE o.zip = 1",
            "SELECT o.customer_id AS id\nFROM Orders o\nWHERE o.total > 3 AND o.zip = 1",
        ),
        (
            f"SELECT c.country FROM Orders o LEFT JOIN Customers {AT} c ON o.customer_id = c.id AND rand() < 0.5",
            "SELECT o.customer_id AS id\nFROM Orders o",
        ),
        (
            (
                f"SELECT 1 FROM Payments p LEFT JOIN Orders o ON p.order_id = o.order_id "
                f"JOIN Customers {AT} c ON o.customer_id = c.id WHERE p.amount > 1 AND o.zip IS NULL"
            ),
            (
                "SELECT o.customer_id AS id\nFROM Payments p\nLEFT JOIN Orders o ON p.order_id = o.order_id\n"
                "WHERE p.amount > 1 AND o.zip IS NULL"
            ),
        ),
        (
            (
                f"SELECT 1 FROM (Orders o JOIN Customers {AT} c ON o.customer_id = c.id) RIGHT JOIN Payments p "
                "ON o.order_id = p.order_id WHERE o.zip IS NULL"
            ),
            "SELECT o.customer_id AS id\nFROM Orders o",
        ),
        (
            (
                f"WITH a AS (SELECT 1), b AS (SELECT * FROM Orders), d AS (SELECT * FROM b) "
                f"SELECT 1 FROM d JOIN Customers {AT} c ON d.customer_id = c.id"
            ),
            "WITH b AS (\nSELECT *\nFROM Orders\n),\nd AS (\nSELECT *\nFROM b\n)\nSELECT d.customer_id AS id\nFROM d",
        ),
        (
            (
                f"SELECT 1 FROM Orders o LEFT JOIN Customers {AT} c ON o.customer_id = c.id OR o.zip = c.zip "
                f"JOIN Products {AT} p ON o.product_id = p.id"
            ),
            None,
        ),
    ],
)
def test_only_keys_that_are_needed(text: str, keys: str | None) -> None:
    found = plan(text)
    if keys is None:
        assert found.error is not None
        return
    assert found.physical is not None
    (join,) = lookups_of(found.physical)
    assert needs_sql(found.physical, join) == keys


@pytest.mark.parametrize(
    ("items", "columns"),
    [
        ("c.country", ("id", "country")),
        ("country, upper(kind)", ("id", "country", "kind")),
        ("o.*", ("id",)),
        ("o.zip, `o`.`tags`.kind, c.country", ("id", "country")),
        ("count(*), o.total * 2", ("id",)),
        ("c.*", ("id", "country", "zip", "kind", "region", "email", "tags")),
        ("*", ("id", "country", "zip", "kind", "region", "email", "tags")),
        ("hash(*)", ("id", "country", "zip", "kind", "region", "email", "tags")),
        ("* EXCEPT (total)", ("id", "country", "zip", "kind", "region", "email", "tags")),
    ],
)
def test_only_columns_that_are_named(items: str, columns: tuple[str, ...]) -> None:
    (join,) = lookups_of(plan(f"SELECT {items} FROM Orders o JOIN Customers {AT} c ON o.customer_id = c.id").physical)
    assert join.spec.columns == columns


# Choosing


@pytest.mark.parametrize(
    ("rows", "sample", "products", "whole"),
    [
        (None, None, 2_000, True),  # small
        (None, None, 100_000, False),
        (1_000_000, None, 900_000, True),  # a tenth of the rows is taken for the number of keys
        (1_000_000, None, 2_000_000, False),
        (1_000_000, [float(n) for n in range(2_000)], 200_000, True),  # all differ: √500 times as many
        (1_000_000, [float(n) for n in range(2_000)], 600_000, False),
        (1_000_000, [float(n % 50) for n in range(2_000)], 100_000, False),  # fifty keys, often
        (1_000_000, [None] * 2_000, 100_000, False),
    ],
)
def test_a_table_is_read_whole_when_a_good_part_of_it_is_needed(
    rows: int | None, sample: list[float | None] | None, products: int, whole: bool
) -> None:
    catalog = Sampled(rows, sample)
    many = with_products(products)
    catalog.declaration = many.declaration  # type: ignore[attr-defined]
    text = f"SELECT p.name FROM Orders o JOIN Products {AT} p ON o.product_id = p.id"
    found = plan(text, catalog)
    assert ("FullLookupJoin" in found.explain()) == whole, found.explain("cost")
    assert any("whole, by shares" in choice for choice in found.choices)


def test_a_table_that_cannot_be_scanned_is_asked() -> None:
    text = f"SELECT p.name FROM Orders o JOIN Products {AT} p ON o.product_id = p.id"
    assert "FullLookupJoin" not in plan(text, with_products(10, scans=False)).explain()


def test_a_hint_is_heeded_whatever_the_size() -> None:
    text = f"SELECT /*+ SHUFFLE_HASH(p) */ p.name FROM Orders o JOIN Products {AT} p ON o.product_id = p.id"
    assert "  HashLookupJoin" in plan(text).explain().replace("─ ", "  ")


# Switching off


@pytest.mark.parametrize("rule", ["lookup_join", "lower_lookup_join"])
def test_a_lookup_that_no_rule_plans_is_an_error(rule: str) -> None:
    text = f"SELECT p.name FROM Orders o JOIN Products {AT} p ON o.product_id = p.id"
    assert plan(text, disabled_rules=(rule,)).error is not None
