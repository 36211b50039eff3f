"""Writes and reads the segments of an arrangement on Spark; one job writes them and computes their statistics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StructField, StructType

from dovetail.executor.session.batch import classic
from dovetail.executor.state.changes import net_changes
from dovetail.executor.state.paths import read_paths
from dovetail.executor.state.store import Store
from dovetail.executor.state.versions import drop_replaced
from dovetail.planner.band.axis import Axis
from dovetail.planner.errors import StateError
from dovetail.planner.expr import quote
from dovetail.planner.state.changes import checked_kind
from dovetail.planner.state.manifest import Segment, Span
from dovetail.planner.state.spec import Input, Side, StoredColumn, StreamJoin
from dovetail.planner.types.schema import sql_type

INPUT = "input"
FILE_ROWS = 1_000_000
NEW_ROWS = 50_000  # in a file of new rows: all cores read those of an epoch, which often come from one file
_EXACT = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}
_KEEP, _TIME, _EXPIRES, _LATE = "__dt_keep", "__dt_time", "__dt_expires", "__dt_late"


@dataclass(frozen=True)
class Arrived:
    """The new rows of an input in an epoch: how many were read and were late, and the segment of those stored."""

    read: int
    late: int
    segment: Segment | None


@dataclass(frozen=True)
class Delta:
    """The new rows of an epoch, in a ``folder``: by input, and the greatest time of each side, in microseconds."""

    folder: str
    inputs: tuple[Arrived, ...]
    times: tuple[int | None, ...]


def tagged_query(join: StreamJoin) -> str:
    """Return the query that reads all inputs as one stream: the stored columns, and what is computed of each row."""
    blocks = []
    for items, input_ in zip(tagged_items(join), join.inputs, strict=True):
        where = f" WHERE {input_.rows}" if input_.rows else ""
        blocks.append(f"SELECT {', '.join(items)} FROM {input_.relation}{where}")
    return "\nUNION ALL\n".join(blocks)


def tagged_items(join: StreamJoin) -> list[list[str]]:
    """Return the select list of each input in that stream."""
    marks = max(len(i.marks) for i in join.inputs)
    blocks = []
    for number, input_ in enumerate(join.inputs):
        items = [f"{number} AS {INPUT}"]
        for other, owner in enumerate(join.inputs):
            items += [f"{_value(owner, c) if other == number else 'NULL'} AS {c.stored}" for c in owner.columns]
        items.append(f"coalesce({input_.keep or 'true'}, false) AS {_KEEP}")
        items.append(f"{_position(input_)} AS {_TIME}")
        items.append(f"CAST({input_.expires or 'NULL'} AS BIGINT) AS {_EXPIRES}")
        for n in range(marks):
            items.append(f"CAST({input_.marks[n] if n < len(input_.marks) else 'NULL'} AS BIGINT) AS __dt_mark{n}")
        for n in sides_with_watermark(join):
            side = join.sides[n]
            items.append(
                f"{f'coalesce({side.ticks or True}, false)' if side.input == number else 'false'} AS __dt_side{n}"
            )
        blocks.append(items)
    return blocks


def sides_with_watermark(join: StreamJoin) -> list[int]:
    """Return the sides that have a watermark."""
    return [n for n, side in enumerate(join.sides) if join.inputs[side.input].event_time]


def late_condition(join: StreamJoin, watermark: int | None) -> str:
    """Return the condition for a tagged row to be late after a watermark (milliseconds), as SQL."""
    timed = [str(n) for n, i in enumerate(join.inputs) if i.late]
    if watermark is None or not timed:
        return "false"
    return f"coalesce({INPUT} IN ({', '.join(timed)}) AND {_TIME} <= {watermark * 1000}, false)"


def _value(input_: Input, column: StoredColumn) -> str:
    """Return the value that is stored of a column; an unknown kind of change raises an error."""
    return checked_kind(column.name, input_.name) if column.name == input_.change else quote(column.name)


def _position(input_: Input) -> str:
    """Return the event time of a row, in microseconds, as SQL."""
    if not input_.event_time:
        return "CAST(NULL AS BIGINT)"
    type_ = sql_type(input_.time)
    return f"CAST({Axis(type_.name, exact=True).position(input_.event_time, type_)} AS BIGINT)"


class Segments:
    """The segments of one join in its store."""

    def __init__(self, store: Store, join: StreamJoin, schemas: tuple[StructType, ...]):
        self.store, self.join = store, join
        self.read: dict[tuple[int, tuple[Segment, ...]], DataFrame] = {}  # in this epoch
        self.schemas = tuple(
            StructType([StructField(c.stored, schema[c.name].dataType) for c in input_.columns])
            for input_, schema in zip(join.inputs, schemas, strict=True)
        )

    def write(self, batch: DataFrame, epoch: int, watermark: int | None, clock: int) -> Delta:
        """Write the rows of an epoch that are not late, and compute their statistics."""
        join, counted = self.join, Observation()
        self.read.clear()
        # The watermark is a literal of one projection alone: generated code that has another literal is compiled anew.
        batch = batch.withColumn(_LATE, F.expr(late_condition(join, watermark)))
        statistics: dict[str, str] = {}
        for n, input_ in enumerate(join.inputs):
            of_input = f"{INPUT} = {n}"
            is_stored = f"{of_input} AND {_KEEP} AND NOT {_LATE}"
            statistics[f"read{n}"] = f"count_if({of_input})"
            statistics[f"late{n}"] = f"count_if({of_input} AND {_KEEP} AND {_LATE})"
            statistics[f"rows{n}"] = f"count_if({is_stored})"
            statistics |= _ends(f"CASE WHEN {is_stored} THEN {_EXPIRES} END", n)
            positions = [_TIME, *(f"__dt_mark{m}" for m in range(len(input_.marks)))]
            statistics |= _spans([f"CASE WHEN {is_stored} THEN {p} END" for p in positions], n)
        for s in sides_with_watermark(join):
            statistics[f"time{s}"] = f"max(CASE WHEN __dt_side{s} THEN {_TIME} END)"
        folder = f"rows-{epoch:012}-{_token()}"
        stored = [INPUT, *(c.stored for i in join.inputs for c in i.columns)]
        rows = _observe(batch, counted, statistics).where(f"{_KEEP} AND NOT {_LATE}").select(*stored)
        self._save(rows, folder, NEW_ROWS)
        found = _observed(counted)
        arrived = []
        for n in range(len(join.inputs)):
            segment = None
            if found[f"rows{n}"]:
                segment = self._segment(f"{folder}/{INPUT}={n}", found, n, clock, 0)
            arrived.append(Arrived(found[f"read{n}"], found[f"late{n}"], segment))
        return Delta(folder, tuple(arrived), tuple(found.get(f"time{s}") for s in range(len(join.sides))))

    def merge(
        self, session: SparkSession, number: int, old: tuple[Segment, ...], epoch: int, watermark: int | None
    ) -> Segment | None:
        """Merge segments of an input into one, in its order, without expired rows."""
        input_, counted = self.join.inputs[number], Observation()
        rows = self.rows(session, number, old, watermark)
        if input_.change:
            rows = net_changes(rows, input_.change)
        if input_.key and watermark is not None:
            rows = drop_replaced(rows, input_.key, _position(input_), watermark)
        statistics = {f"rows{number}": "count(*)"}
        statistics |= _ends(input_.expires or "CAST(NULL AS BIGINT)", number)
        has_times = input_.event_time in [quote(c.name) for c in input_.columns]
        statistics |= _spans([_position(input_) if has_times else "CAST(NULL AS BIGINT)", *input_.marks], number)
        order = [F.expr(by) for by in self.order(number)]
        folder = f"merged-{epoch:012}-{number}-{_token()}"
        rows = _observe(rows, counted, statistics)
        rows = rows.coalesce(1 + sum(s.rows for s in old) // FILE_ROWS)
        rows = rows.sortWithinPartitions(*order) if order else rows
        stored = [F.col(quote(c.name)).alias(c.stored) for c in input_.columns]
        self._save(rows.select(F.lit(number).alias(INPUT), *stored), folder, FILE_ROWS)
        found = _observed(counted)
        if not found[f"rows{number}"]:
            return None
        arrived, tier = max(s.arrived for s in old), max(s.tier for s in old) + (len(old) > 1)
        merged = self._segment(f"{folder}/{INPUT}={number}", found, number, arrived, tier)
        if has_times or not (times := [s.times for s in old if s.times]):
            return merged
        return replace(merged, times=(min(t[0] for t in times), max(t[1] for t in times)))

    def order(self, number: int) -> tuple[str, ...]:
        """Return the sort order of a merged segment: the position of a band, or else the first key."""
        marks = self.join.inputs[number].marks
        banded = (
            marks[mark]
            for reach in self.join.bands
            for side, mark in (reach.small, reach.large)
            if self.join.sides[side].input == number
        )
        return (*banded, *marks)[:1]

    def rows(
        self, session: SparkSession, number: int, segments: tuple[Segment, ...], watermark: int | None = None
    ) -> DataFrame:
        """Read the rows of segments under the column names of the stream, without expired rows."""
        input_ = self.join.inputs[number]
        frame = self.read.get((number, segments))
        if frame is None or frame.sparkSession is not session:
            schema, paths = self.schemas[number], self.store.paths(segments)
            frame = read_paths(lambda: session.read.schema(schema), paths) if paths else empty_rows(session, schema)
            frame = self.read[number, segments] = frame.toDF(*(c.name for c in input_.columns))
        if watermark is not None and input_.expires:
            return frame.where(f"NOT coalesce({input_.expires} <= {watermark * 1000}, false)")
        return frame

    def side(self, session: SparkSession, side: Side, segments: tuple[Segment, ...], which: str = "") -> DataFrame:
        """Read the rows and columns of a side, where a condition holds."""
        rows = self.rows(session, side.input, segments)
        for condition in filter(None, (side.rows, which)):
            rows = rows.where(condition)
        return rows.selectExpr(*(f"{value} AS {quote(shown)}" for shown, value in side.shown))

    def _save(self, rows: DataFrame, folder: str, rows_of_file: int) -> None:
        with exact_times(rows.sparkSession):
            writer = rows.write.partitionBy(INPUT).option("maxRecordsPerFile", rows_of_file)
            writer.parquet(self.store.folder.below(folder))

    def _segment(self, folder: str, found: dict[str, Any], number: int, arrived: int, tier: int) -> Segment:
        """Describe a segment by the statistics that were computed while it was written."""
        times, *marks = (_span(found, f"{number}_{m}") for m in range(1 + len(self.join.inputs[number].marks)))
        files, rows = self.store.files(folder), found[f"rows{number}"]
        if not files:
            raise StateError(
                f"Spark has written {rows} rows to {self.store.folder.below(folder)}, and no file is there: the driver "
                "and the executors see different folders. Name a checkpoint on storage that all of them share"
            )
        expires, half = found.get(f"expires{number}"), found.get(f"half{number}")
        return Segment(folder, files, rows, tuple(marks), times, expires, arrived, tier, half)


def _token() -> str:
    """Return a random suffix, so that another attempt of an epoch writes into another folder."""
    return uuid4().hex[:8]


def empty_rows(session: SparkSession, schema: StructType) -> DataFrame:
    """Return an empty DataFrame with the columns of a schema, all nullable; Spark knows that it has no rows."""
    if not classic(session):
        none = session.range(1).where("false")  # Spark's optimizer makes an empty relation of it
        return none.select(*(F.lit(None).cast(f.dataType).alias(f.name) for f in schema))
    columns = StructType([StructField(f.name, f.dataType) for f in schema])
    jvm: Any = session._jvm
    spark: Any = session._jsparkSession
    found = spark.createDataFrame(jvm.java.util.ArrayList(), spark.parseDataType(columns.json()))
    return DataFrame(found, session)


def _observe(rows: DataFrame, counted: Observation, statistics: dict[str, str]) -> DataFrame:
    """Let Spark compute aggregates by name while it reads rows; as one text, since each value takes many requests."""
    items = ", ".join(f"'{name}', {aggregate}" for name, aggregate in statistics.items())
    return rows.observe(counted, F.expr(f"to_json(named_struct({items}))").alias("statistics"))


def _observed(counted: Observation) -> dict[str, Any]:
    """Return the values of these aggregates, without those that are NULL."""
    found: dict[str, Any] = json.loads(counted.get["statistics"])
    return {name: value for name, value in found.items() if value is not None}


def _ends(expires: str, number: int) -> dict[str, str]:
    """Return aggregates for the watermarks at which all rows, and half of them, have expired."""
    return {f"expires{number}": f"max({expires})", f"half{number}": f"percentile_approx({expires}, 0.5D)"}


def _spans(positions: list[str], number: int) -> dict[str, str]:
    """Return aggregates for the least and greatest value of each position."""
    return {
        f"{name}{number}_{m}": f"{function}({position})"
        for m, position in enumerate(positions)
        for function, name in (("min", "least"), ("max", "most"))
    }


def _span(found: dict[str, Any], name: str) -> Span:
    least = found.get(f"least{name}")
    return None if least is None else (least, found[f"most{name}"])


def exact_times(session: SparkSession) -> AbstractContextManager[None]:
    """Write times to Parquet unchanged, in microseconds, for which Parquet stores statistics.

    The user's settings apply to other files; only Dovetail reads these.
    """
    return settings(session, _EXACT)


@contextmanager
def settings(session: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session temporarily."""
    before = {name: session.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is not None:
                session.conf.set(name, old)
            else:
                session.conf.unset(name)
