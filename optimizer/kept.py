"""A view kept fresh: the joined rows of a query over streams are kept, and each refresh adds those that are new."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.parameters import bound, named
from optimizer.stream_epochs import Planner, changelogs
from optimizer.streams import NO_LITERAL, StreamPlan
from optimizer.verify import Verification
from optimizer.verify_streams import verify_streams
from planner.errors import QueryError, Unsupported
from planner.logical import Scan
from planner.sql.from_sql import from_sql
from planner.sql.names import Unresolved
from planner.sql.table_names import name_of
from planner.state.sink import Sink
from rules.context import Context
from rules.stream.kept_view import JOINED, KeptQuery, kept_query
from rules.stream.stream_join import NotTaken

if TYPE_CHECKING:
    from typing import Protocol

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    class Streams(Planner, Protocol):
        """What is asked of an optimizer here."""

        def stream_plan(self, text: str, args: Any = None, *, state_modules: bool | None = None) -> StreamPlan: ...

        def stream(
            self,
            text: str,
            args: Any = None,
            *,
            checkpoint: str | Path,
            sink: Any,
            trigger: str | None = None,
            state_modules: bool | None = None,
        ) -> StreamingQuery: ...


@dataclass(frozen=True)
class KeptView:
    """A query over streams under a ``name``, with its joined rows and its state in a folder.

    ``schema`` is that of the query; ``rows`` that of the joined rows.
    """

    opt: Streams
    name: str
    text: str
    state: str
    query: KeptQuery
    schema: StructType
    rows: StructType

    def refresh(self) -> KeptView:
        """Take all that has arrived since the last time, and make the view anew.

        Only what is new is read and joined; a refresh that was killed goes on where it was.  Raises what
        ``Optimizer.stream`` raises.
        """
        started = self.opt.stream(
            self.query.joined,
            checkpoint=f"{self.state}/checkpoint",
            sink=Sink("parquet", f"{self.state}/rows"),
            trigger="available now",
            state_modules=True,
        )
        started.awaitTermination()
        self.table().createOrReplaceTempView(self.name)
        return self

    def table(self) -> DataFrame:
        """The result over all rows that were there at the last refresh."""
        from planner.runtime.state.changes import current
        from planner.runtime.state.files import HadoopFolder

        session, folder = self.opt.session, f"{self.state}/rows"
        there = HadoopFolder(session, folder).inside()
        rows = session.read.schema(self.rows).parquet(folder) if there else session.createDataFrame([], self.rows)
        rows = current(rows, self.query.change) if self.query.change else rows
        return _above(rows, self.query, self.schema)

    def explain(self) -> str:
        """How a refresh finds the new rows, and what is asked of all of them."""
        plan = self.opt.stream_plan(self.query.joined, state_modules=True)
        return f"{plan.explain()}\n\nand over the joined rows:\n\n{self.query.above}"

    def verify(self, scratch: str | Path | None = None) -> Verification:
        """Compare with recomputing, as ``Optimizer.verify`` does: from the first row, over all that has arrived.

        Raises ``QueryError`` where state modules do not take the join.
        """
        plan = self.opt.stream_plan(self.query.joined, state_modules=True)
        above = partial(_above, query=self.query, schema=self.schema)
        found = verify_streams(self.opt, plan, scratch, text=self.text, above=above)
        if found is None:
            raise QueryError(f"Spark's own query finds the rows, and there is nothing to compare with: {plan.reason}")
        return found


def keep(opt: Streams, text: str, name: str, state: str | Path, args: Any) -> KeptView:
    """Take a query apart and find its rows for the first time, or go on.  Raises ``QueryError``; ``StateError``."""
    from pyspark.sql.types import StringType, StructField, StructType

    from planner.runtime.batch import run
    from planner.runtime.catalog import SparkCatalog
    from planner.runtime.state.streams import without_files

    numbered, arguments = named(text, args)
    schema = run(opt.session, numbered, arguments).schema
    said = bound(numbered, arguments) if arguments else numbered
    if said is None:
        raise QueryError(f"this query cannot be kept fresh: {NO_LITERAL}")
    catalog = SparkCatalog(opt.session, None, None, changelogs(opt), None, opt.meanings)
    try:
        logical, _ = from_sql(said, catalog.settings)
        query = kept_query(logical, Context(catalog, opt.options))
    except (NotTaken, Unresolved, Unsupported) as no:
        raise QueryError(f"this query cannot be kept fresh: {no}") from no
    rows = run(opt.session, query.joined)
    if not rows.isStreaming:
        raise QueryError("no relation of this query is a stream; there is nothing to keep fresh")
    own = tuple(map(str.lower, name_of(name)))
    if any(isinstance(n, Scan) and tuple(map(str.lower, n.name)) == own for n in logical.walk()):
        raise QueryError(f"the query reads {name}; give the view another name")
    if odd := without_files(rows.schema):
        raise QueryError(f"files cannot hold the column {odd} of the joined rows; leave it out, or cast it in a view")
    if padded := next((f.name for f in rows.schema if "__CHAR_VARCHAR_TYPE_STRING" in f.metadata), None):
        column = query.joined.partition(f" AS {padded}")[0].split()[-1]
        raise QueryError(f"{column} is CHAR or VARCHAR, and its rows would be read back as STRING; cast it in a view")
    if query.change:
        schema = run(opt.session, query.text).schema
        said = query.text
    plain = StructType([f for f in rows.schema if f.name != query.change])
    whole = StructType([*plain, StructField(query.change, StringType())]) if query.change else plain
    kept = KeptView(opt, name, said, str(state).rstrip("/"), query, schema, whole)
    empty = _above(opt.session.createDataFrame([], plain), query, schema)
    if [f.dataType.simpleString() for f in empty.schema] != [f.dataType.simpleString() for f in schema]:
        raise QueryError(
            f"this query cannot be kept fresh: over its rows it would return {empty.schema.simpleString()}"
        )
    return kept.refresh()


def _above(rows: DataFrame, query: KeptQuery, schema: StructType) -> DataFrame:
    """What a query returns over its joined rows."""
    from planner.runtime.batch import run

    session = rows.sparkSession
    rows.createOrReplaceTempView(JOINED)
    try:
        return run(session, query.above).toDF(*schema.names)
    finally:
        session.catalog.dropTempView(JOINED)
