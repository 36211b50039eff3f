"""Tables of TPC-H that change: rounds of changes as files of streams, and the rows that are there as tables.

tables = Changing(0.01, folder)
tables.insert(150), tables.delete(150)     # orders with their lineitems, as RF1 and RF2 of TPC-H do
tables.write()                             # the next file of each stream whose table has changed
tables.save(folder / "now")                # the rows that are there, a Parquet file to a table
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from tpc.data import generate

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

CHANGE = "_change_type"
FIXED = ("nation", "region")
CHANGING = ("customer", "lineitem", "orders", "supplier")
TABLES = (*CHANGING, *FIXED)

_NEW_LINE = """l_orderkey + 8 AS l_orderkey,
l_extendedprice + CAST(hash(l_orderkey, l_linenumber, {seed}) % 10000 AS DECIMAL(15, 2)) / 100 AS l_extendedprice"""


class Changing:
    """Six tables of TPC-H at a scale, and a folder of files for each of them, ``streams``.

    ``changelog``: the files of all but ``FIXED`` have the column ``CHANGE``; else there are only inserts, without it.
    The same ``seed`` makes the same changes.
    """

    def __init__(self, scale: float, folder: Path, *, changelog: bool = True, seed: int = 0):
        self.folder, self.seed, self.files, self.changelog = folder, seed, 0, changelog
        folder.mkdir(parents=True)
        self.streams = {name: folder / name for name in TABLES}
        self.there = duckdb.connect(str(folder / "tables.duckdb"))
        made = generate("tpch", scale)
        for name, stream in self.streams.items():
            stream.mkdir()
            rows = f"SELECT * FROM '{made / name}.parquet'"
            self.there.execute(f"CREATE TABLE {name} AS {rows}")
            self.there.execute(f"CREATE TABLE {name}_changes AS SELECT *, 'insert' AS {CHANGE} FROM {name}")
        self.orders = self.count("orders")
        self.write()

    def count(self, table: str) -> int:
        """The rows of a table that are there."""
        found = self.there.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(found[0][0])

    def insert(self, orders: int) -> None:
        """New orders with their lineitems, under keys that the generator leaves free among those it uses."""
        free = "o_orderkey % 32 < 8 AND o_orderkey + 8 NOT IN (SELECT o_orderkey FROM orders)"
        self._choose("orders", "o_orderkey", orders, free)
        new = {
            "orders": ("o_orderkey", "o_orderkey + 8 AS o_orderkey"),
            "lineitem": ("l_orderkey", _NEW_LINE.format(seed=self.seed)),
        }
        for table, (key, values) in new.items():
            rows = f"SELECT * REPLACE ({values}) FROM {table} WHERE {key} IN (FROM chosen)"
            self.there.execute(f"CREATE OR REPLACE TEMP TABLE new AS {rows}")
            self.there.execute(f"INSERT INTO {table} FROM new")
            self.there.execute(f"INSERT INTO {table}_changes SELECT *, 'insert' FROM new")

    def delete(self, orders: int) -> None:
        """Orders go, with their lineitems."""
        self._choose("orders", "o_orderkey", orders)
        for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
            self._log(table, key, "delete")
            self.there.execute(f"DELETE FROM {table} WHERE {key} IN (FROM chosen)")

    def update(self, table: str, key: str, rows: int, values: str) -> None:
        """Rows change: ``values`` is what stands behind SET."""
        self._choose(table, key, rows)
        self._log(table, key, "update_preimage")
        self.there.execute(f"UPDATE {table} SET {values} WHERE {key} IN (FROM chosen)")
        self._log(table, key, "update_postimage")

    def write(self) -> int:
        """The next file of each stream whose table has changed; how many rows all of them have."""
        written = 0
        for table, stream in self.streams.items():
            rows = self.count(f"{table}_changes")
            if rows:
                shown = "*" if self.changelog and table not in FIXED else f"* EXCLUDE ({CHANGE})"
                self._copy(f"SELECT {shown} FROM {table}_changes", stream / f".{self.files:04}.parquet")
                (stream / f".{self.files:04}.parquet").rename(stream / f"{self.files:04}.parquet")
                self.there.execute(f"DELETE FROM {table}_changes")
                written += rows
        self.files += 1
        return written

    def save(self, folder: Path) -> dict[str, Path]:
        """The rows that are there now, as files in a folder."""
        folder.mkdir()
        for table in TABLES:
            self._copy(f"SELECT * FROM {table}", folder / f"{table}.parquet")
        return {table: folder / f"{table}.parquet" for table in TABLES}

    def stream(self, session: SparkSession) -> None:
        """Make each stream a temporary view under the name of its table."""
        for table, stream in self.streams.items():
            schema = session.read.parquet(str(stream / "0000.parquet")).schema
            session.readStream.schema(schema).parquet(str(stream)).createOrReplaceTempView(table)

    def _choose(self, table: str, key: str, rows: int, condition: str = "true") -> None:
        """Keys of so many rows of a table, at random."""
        self.seed += 1
        self.there.execute(
            f"CREATE OR REPLACE TEMP TABLE chosen AS SELECT {key} FROM {table} WHERE {condition} "
            f"ORDER BY hash({key}, {self.seed}) LIMIT {rows}"
        )

    def _log(self, table: str, key: str, kind: str) -> None:
        self.there.execute(f"INSERT INTO {table}_changes SELECT *, '{kind}' FROM {table} WHERE {key} IN (FROM chosen)")

    def _copy(self, rows: str, path: Path) -> None:
        """Compressed as Spark does it by itself."""
        self.there.execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet, COMPRESSION snappy)")
