"""A lookup table that Spark reads itself: a table, a view, or Parquet, CSV, JSON or ORC files.

Nothing is fetched by key: Spark selects the requested rows with a semi-join, and each of its tasks reads its split of
the files.  So this source is only a description and has no ``fetch``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dovetail.executor.connectors.source import LookupSource
from dovetail.planner.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa


class SparkTable(LookupSource):
    """``SparkTable("shop.customers")``, or ``SparkTable(path="customers.parquet", format="parquet")``.

    ``ddl`` is the schema of files without one, in Spark's syntax: ``"id BIGINT, name STRING"``.
    """

    def __init__(
        self,
        table: str | None = None,
        *,
        path: str | None = None,
        format: str = "parquet",
        ddl: str | None = None,
        options: Mapping[str, str] | None = None,
        unique_keys: Sequence[Sequence[str]] = (),
    ) -> None:
        if (table is None) == (path is None):
            raise SourceError("SparkTable takes either a table or a path; give one of them")
        self.table = table
        self.path = path
        self.format = format
        self.ddl = ddl
        self.options = tuple((options or {}).items())
        self.unique_keys = tuple(tuple(keys) for keys in unique_keys)

    def schema(self) -> pa.Schema:
        raise NotImplementedError("Spark knows the schema: dovetail.executor.lookup.fetch_rows.source_schema")

    def fetch(self, keys: pa.Table) -> pa.Table:
        raise NotImplementedError("Spark reads this table itself: dovetail.executor.lookup.fetch_rows")

    def __repr__(self) -> str:
        return f"Spark table {self.table}" if self.table else f"{self.format} files"
