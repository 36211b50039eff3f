"""TPC-H and TPC-DS for Spark: data and queries from the DuckDB extension packages, no line of them copied.

    register(spark, "tpch", 0.01)       # makes the data if it is not there, then eight temporary views
    queries("tpch")["h01"]              # the text of a query, ready for spark.sql

Data is kept as one Parquet file per table in `.data/tpc/<suite>-sf<scale>-<stamp>`; `$DOVETAIL_DATA` replaces
`.data`. A folder of that name is complete: it is filled under another name and renamed at the end.

All 121 texts run on Spark with ANSI mode on as DuckDB has them, but for one thing: names in double quotes.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from duckdb_extensions import import_extension

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYOUT = 1  # count up when the files below change in any way


@dataclass(frozen=True)
class Suite:
    """What DuckDB calls the parts of a benchmark, and what its queries are called here."""

    name: str
    prefix: str
    generator: str
    count: int

    @property
    def ids(self) -> list[str]:
        """Names of the queries in their order: h01 … h22, ds01 … ds99."""
        return [f"{self.prefix}{number:02}" for number in range(1, self.count + 1)]


SUITES = {
    "tpch": Suite("tpch", "h", "dbgen", 22),
    "tpcds": Suite("tpcds", "ds", "dsdgen", 99),
}

# Comments and strings come first, to be left alone.
_QUOTED = re.compile(r"""--[^\n]*|'(?:[^']|'')*'|"(?P<name>(?:[^"]|"")*)\"""")


def queries(suite: str) -> dict[str, str]:
    """Give the query texts by id, as DuckDB has them except for the quotes around names."""
    return dict(_queries(suite))


@cache
def _queries(suite: str) -> dict[str, str]:
    spec = SUITES[suite]
    with _connect(spec) as connection:
        found = connection.execute(f"SELECT query_nr, query FROM {suite}_queries() ORDER BY query_nr").fetchall()
    texts = {f"{spec.prefix}{number:02}": for_spark(text) for number, text in found}
    if list(texts) != spec.ids:
        raise ValueError(f"{suite}: expected {spec.count} queries, DuckDB has {len(texts)}")
    return texts


def for_spark(text: str) -> str:
    """Write the names in double quotes with backticks, which is what Spark reads as a name."""

    def requote(match: re.Match[str]) -> str:
        name = match["name"]
        return match[0] if name is None else "`" + name.replace('""', '"').replace("`", "``") + "`"

    return _QUOTED.sub(requote, text)


def columns(suite: str) -> dict[str, dict[str, str]]:
    """The columns of the tables of a suite, with their types, without any data."""
    with _connect(SUITES[suite]) as connection:
        connection.execute(f"CALL {SUITES[suite].generator}(sf = 0)")
        names = [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        return {name: {c[0]: c[1] for c in connection.execute(f"DESCRIBE {name}").fetchall()} for name in names}


def home() -> Path:
    """Where made data is kept: `$DOVETAIL_DATA`, else `.data` of this checkout."""
    chosen = os.environ.get("DOVETAIL_DATA")
    return Path(chosen) if chosen else Path(__file__).resolve().parents[2] / ".data"


def folder(suite: str, scale: float) -> Path:
    """Where the tables of a suite are kept; the name holds all that decides what is in the files."""
    return home() / "tpc" / f"{suite}-sf{scale:g}-duckdb{duckdb.__version__}-{LAYOUT}"


def generate(suite: str, scale: float) -> Path:
    """Make the tables of a suite as Parquet files, unless they are there, and give their folder."""
    spec, target = SUITES[suite], folder(suite, scale)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        with _connect(spec, partial / "generated.duckdb") as connection:
            connection.execute(f"CALL {spec.generator}(sf = {scale:g})")
            for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                path = str(partial / f"{table}.parquet").replace("'", "''")
                connection.execute(f"COPY {table} TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
        (partial / "generated.duckdb").unlink()
        _publish(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def register(spark: SparkSession, suite: str, scale: float) -> list[str]:
    """Make each table a temporary view. Both suites have a `customer`, so give each a session of its own."""
    tables = sorted(generate(suite, scale).glob("*.parquet"))
    for path in tables:
        spark.read.parquet(str(path)).createOrReplaceTempView(path.stem)
    return [path.stem for path in tables]


def _connect(suite: Suite, path: Path | None = None) -> duckdb.DuckDBPyConnection:
    import_extension(suite.name)
    connection = duckdb.connect(str(path) if path else ":memory:")
    connection.execute(f"LOAD {suite.name}")
    return connection


def _publish(partial: Path, target: Path) -> None:
    """Give a filled folder its name. Whoever comes second keeps what the first one made."""
    try:
        partial.rename(target)
    except OSError:
        if not target.is_dir():
            raise
