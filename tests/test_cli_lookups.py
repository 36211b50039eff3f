"""The command line with a catalog of lookups: SQLite behind one, and a table with versions."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from command_line import dovetail
from dovetail.optimizer.commands import work

LOOKED_UP = (
    "SELECT /*+ SHUFFLE_HASH('c') */ o.id, c.country FROM orders o "
    "LEFT JOIN shop.customers FOR SYSTEM_TIME AS OF PROCTIME() AS c ON o.customer = c.id ORDER BY o.id"
)


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Orders and rates in Parquet, customers in SQLite, and the catalog that tells of them."""
    home = tmp_path_factory.mktemp("lookups")
    orders = spark.createDataFrame([(1, 10), (2, 11), (3, 99), (4, None)], "id INT, customer INT").coalesce(1)
    orders.write.parquet(str(home / "orders"))
    rates = spark.createDataFrame([(10, "2026-01-01", 1.5), (10, "2026-01-05", 2.5)], "k INT, d STRING, rate DOUBLE")
    rates.selectExpr("k", "CAST(d AS TIMESTAMP) AS since", "rate").coalesce(1).write.parquet(str(home / "rates"))
    with closing(sqlite3.connect(home / "shop.db")) as shop:
        shop.execute("CREATE TABLE customers (id BIGINT PRIMARY KEY, country TEXT)")
        shop.executemany("INSERT INTO customers VALUES (?, ?)", [(10, "DE"), (11, "FR"), (12, "IT")])
        shop.commit()
    (home / "catalog.toml").write_text(
        '[lookup."shop.customers"]\nkind = "sqlite"\ntable = "customers"\npath = "shop.db"\n'
        '[tables.rates]\nversions = { key = ["k"], from = "since" }\n'
    )
    return home


@pytest.fixture
def given(files: Any) -> Any:
    return ["--catalog", files / "catalog.toml", "-t", f"orders={files}/orders", "-t", f"rates={files}/rates"]


def test_run(given: Any) -> None:
    done = dovetail("run", "--sql", LOOKED_UP, "--json", *given)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == [[1, "DE"], [2, "FR"], [3, None], [4, None]]


def test_explain(given: Any) -> None:
    done = dovetail("explain", "--sql", LOOKED_UP, *given)
    assert done.exit_code == 0, done.stderr
    assert "HashLookupJoin  left, shop.customers, on o.customer = c.id" in done.stdout


def test_rewrite_says_what_its_views_are(given: Any) -> None:
    done = dovetail("rewrite", "--sql", LOOKED_UP, *given)
    assert done.exit_code == 0, done.stderr
    assert "LEFT JOIN __dt_lookup1 AS c ON o.customer = c.id" in done.stdout
    assert "SHUFFLE_HASH" not in done.stdout
    assert "__dt_lookup1 is made by the runtime: rows of shop.customers" in done.stderr
    assert "SELECT o.customer AS id" in done.stderr


def test_verify(given: Any) -> None:
    done = dovetail("verify", "--sql", LOOKED_UP, *given)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("same: 4 rows both ways")


def test_versions(given: Any) -> None:
    text = (
        "SELECT o.id, r.rate FROM (SELECT *, TIMESTAMP '2026-01-03 00:00:00' AS t FROM orders) o "
        "JOIN rates FOR SYSTEM_TIME AS OF o.t AS r ON o.customer = r.k"
    )
    done = dovetail("run", "--sql", text, "--json", *given)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == [[1, 1.5]]


def test_what_cannot_run_is_said_with_its_place(given: Any) -> None:
    done = dovetail("explain", "--sql", LOOKED_UP.replace("LEFT", "RIGHT"), *given)
    assert done.exit_code == 1
    assert "line 1, column" in done.stderr
    assert "a RIGHT JOIN would need every row of shop.customers" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[lookup.c]\nkind = "sqlight"\n', "kind is 'sqlight'; did you mean 'sqlite'?"),
        ("lookup = 1\n", "line 1: lookup: 1 is not a table"),
        ("[lookup]\nc = 1\n", "line 2: lookup.c: 1 is not a table of settings"),
        ("[tables.rates]\nversions = { key = ['k'] }\n", "line 2: tables.rates.versions: it has no from; write from ="),
        ("[tables.rates]\nversions = { key = ['k'], from = 'sinse' }\n", "did you mean 'since'?"),
        ("[tables.changes]\nchangelog = { key = ['k'], change = 'op' }\n", "there is no table 'changes'"),
        ("[", "bad.toml: not TOML"),
    ],
)
def test_a_catalog_that_cannot_be_used(files: Any, tmp_path: Path, text: Any, said: Any) -> None:
    (tmp_path / "bad.toml").write_text(text)
    done = dovetail("explain", "--sql", "SELECT 1", "-t", f"rates={files}/rates", "--catalog", tmp_path / "bad.toml")
    assert done.exit_code == 2, done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("lookup", "code", "said"),
    [
        ('kind = "sqlite"\ntable = "customers"\npath = "gone.db"', 2, "there is no file"),
        (
            'kind = "sqlite"\ntable = "customers"\npath = "no.db"',
            2,
            "customers: file is not a database",
        ),
        ('kind = "sqlite"\ntable = "gone"\npath = "shop.db"', 2, "SQLite table gone has no columns, or does not exist"),
        ('kind = "sqlite"\ntable = "customers"\npath = "shop.db"\nunique_keys = [["idd"]]', 2, "did you mean 'id'?"),
        ('kind = "postgresql"\ntable = "t"\nuri_env = "NO_SUCH_DB"', 2, "NO_SUCH_DB is not set"),
        (
            'kind = "postgresql"\ntable = "t"\nuri_env = "DEAD_DB"',
            3,
            "lookup.c: PostgreSQL table t: IO: [libpq] Failed to connect",
        ),
    ],
)
def test_a_source_that_cannot_be_used(
    files: Any, monkeypatch: pytest.MonkeyPatch, lookup: Any, code: Any, said: Any
) -> None:
    monkeypatch.setenv("DEAD_DB", "host=127.0.0.1 port=1 dbname=shop")
    (files / "no.db").write_text("this is text, and no database")
    (files / "bad.toml").write_text(f"[lookup.c]\n{lookup}\n")
    done = dovetail("explain", "--sql", "SELECT 1", "--catalog", files / "bad.toml")
    assert done.exit_code == code, done.stderr
    assert said in done.stderr
    assert done.stderr.startswith(f"error: --catalog {files / 'bad.toml'}, line ")
    assert "Traceback" not in done.stderr


def test_a_lookup_that_fails_says_what_its_source_says(files: Any, tmp_path: Path) -> None:
    """The error of a Python worker is the one line that matters, without its traceback."""
    with closing(sqlite3.connect(tmp_path / "dates.db")) as shop:
        shop.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, day DATE)")
        shop.execute("INSERT INTO t VALUES (10, 'nonsense')")
        shop.commit()
    (tmp_path / "c.toml").write_text('[lookup.c]\nkind = "sqlite"\ntable = "t"\npath = "dates.db"\n')
    query = LOOKED_UP.replace("shop.customers", "c").replace("c.country", "c.day")
    done = dovetail("run", "--sql", query, "-t", f"orders={files}/orders", "--catalog", tmp_path / "c.toml")
    assert done.exit_code in (1, 3), done.stderr
    assert "Traceback" not in done.stderr
    assert "stack trace" not in done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) < 4


def test_a_catalog_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_args: Any, **_kwargs: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(work, "require_java", started)
    done = dovetail("explain", "--sql", "SELECT 1", "--catalog", "nowhere.toml")
    assert done.exit_code == 2
    assert "--catalog nowhere.toml: there is no such file" in done.stderr
