"""Segments of an arrangement on Spark: written by one job, with what is to be known of them counted on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StructField, StructType

from planner.band.axis import Axis
from planner.expr import quote
from planner.runtime.state.changes import netted
from planner.runtime.state.versions import not_replaced
from planner.state.changes import known
from planner.state.manifest import Segment, Span
from planner.state.spec import Input, Kept, Side, StreamJoin
from planner.state.store import Store
from planner.types.schema import sql_type

INPUT = "input"
FILE_ROWS = 1_000_000
_EXACT = {
    "outputTimestampType": "TIMESTAMP_MICROS",
    "datetimeRebaseModeInWrite": "CORRECTED",
    "int96RebaseModeInWrite": "CORRECTED",
}
_KEEP, _TIME, _EXPIRES = "__dt_keep", "__dt_time", "__dt_expires"


@dataclass(frozen=True)
class Arrived:
    """What an epoch brought on one input: how many rows were read and were late, and the segment of those kept."""

    read: int
    late: int
    segment: Segment | None


@dataclass(frozen=True)
class Delta:
    """What an epoch brought: on each input, and the greatest time of each side, in microseconds."""

    inputs: tuple[Arrived, ...]
    times: tuple[int | None, ...]


def tagged(join: StreamJoin) -> str:
    """The query that is one stream of all inputs: the columns that are kept, and what is counted, row by row."""
    blocks = []
    for items, input_ in zip(tagged_items(join), join.inputs, strict=True):
        where = f" WHERE {input_.rows}" if input_.rows else ""
        blocks.append(f"SELECT {', '.join(items)} FROM {input_.relation}{where}")
    return "\nUNION ALL\n".join(blocks)


def tagged_items(join: StreamJoin) -> list[list[str]]:
    """What that stream has of each input."""
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
        for n in timed(join):
            side = join.sides[n]
            items.append(
                f"{f'coalesce({side.ticks or True}, false)' if side.input == number else 'false'} AS __dt_side{n}"
            )
        blocks.append(items)
    return blocks


def timed(join: StreamJoin) -> list[int]:
    """The sides that have a watermark."""
    return [n for n, side in enumerate(join.sides) if join.inputs[side.input].event_time]


def late(join: StreamJoin, watermark: int | None) -> str:
    """Whether a tagged row comes too late, once a watermark (milliseconds) has been reached."""
    timed = [str(n) for n, i in enumerate(join.inputs) if i.late]
    if watermark is None or not timed:
        return "false"
    return f"coalesce({INPUT} IN ({', '.join(timed)}) AND {_TIME} <= {watermark * 1000}, false)"


def _value(input_: Input, column: Kept) -> str:
    """A column as it is kept; one that says how rows change only if it says something that is known."""
    return known(column.name, input_.name) if column.name == input_.change else quote(column.name)


def _position(input_: Input) -> str:
    """The event time of a row, in microseconds."""
    if not input_.event_time:
        return "CAST(NULL AS BIGINT)"
    type_ = sql_type(input_.time)
    return f"CAST({Axis(type_.name, exact=True).position(input_.event_time, type_)} AS BIGINT)"


def rows_of(epoch: int) -> str:
    """The folder of what arrived in an epoch."""
    return f"rows-{epoch:012}"


class Segments:
    """The segments of one join in its store."""

    def __init__(self, store: Store, join: StreamJoin, schemas: tuple[StructType, ...]):
        self.store, self.join = store, join
        self.schemas = tuple(
            StructType([StructField(c.stored, schema[c.name].dataType) for c in input_.columns])
            for input_, schema in zip(join.inputs, schemas, strict=True)
        )

    def write(self, batch: DataFrame, epoch: int, watermark: int | None, clock: int) -> Delta:
        """Write the rows of an epoch that are not late, and count."""
        join, counted, dropped = self.join, Observation(), late(self.join, watermark)
        asked: list[Any] = []
        for n, input_ in enumerate(join.inputs):
            mine = f"{INPUT} = {n}"
            kept = f"{mine} AND {_KEEP} AND NOT {dropped}"
            asked += [
                F.expr(f"count_if({mine})").alias(f"read{n}"),
                F.expr(f"count_if({mine} AND {_KEEP} AND {dropped})").alias(f"late{n}"),
                F.expr(f"count_if({kept})").alias(f"rows{n}"),
                *_ends(f"CASE WHEN {kept} THEN {_EXPIRES} END", n),
            ]
            positions = [_TIME, *(f"__dt_mark{m}" for m in range(len(input_.marks)))]
            asked += _spans([f"CASE WHEN {kept} THEN {p} END" for p in positions], n)
        asked += [F.expr(f"max(CASE WHEN __dt_side{s} THEN {_TIME} END)").alias(f"time{s}") for s in timed(join)]
        folder = rows_of(epoch)
        stored = [INPUT, *(c.stored for i in join.inputs for c in i.columns)]
        rows = batch.observe(counted, *asked).where(f"{_KEEP} AND NOT {dropped}").select(*stored)
        self._save(rows, folder)
        found = counted.get
        arrived = []
        for n in range(len(join.inputs)):
            segment = None
            if found[f"rows{n}"]:
                segment = self._segment(f"{folder}/{INPUT}={n}", found, n, clock, 0)
            arrived.append(Arrived(found[f"read{n}"], found[f"late{n}"], segment))
        return Delta(tuple(arrived), tuple(found.get(f"time{s}") for s in range(len(join.sides))))

    def merge(
        self, session: SparkSession, number: int, old: tuple[Segment, ...], epoch: int, watermark: int | None
    ) -> Segment | None:
        """Write segments of an input as one, in its order, without the rows that match no more."""
        input_, counted = self.join.inputs[number], Observation()
        rows = self.rows(session, number, old, watermark)
        if input_.change:
            rows = netted(rows, input_.change)
        if input_.key and watermark is not None:
            rows = not_replaced(rows, input_.key, _position(input_), watermark)
        asked: list[Any] = [F.expr("count(*)").alias(f"rows{number}")]
        asked += _ends(input_.expires or "CAST(NULL AS BIGINT)", number)
        has_times = input_.event_time in [quote(c.name) for c in input_.columns]
        asked += _spans([_position(input_) if has_times else "CAST(NULL AS BIGINT)", *input_.marks], number)
        order = [F.expr(by) for by in self.order(number)]
        folder = f"merged-{epoch:012}-{number}"
        rows = rows.observe(counted, *asked)
        rows = rows.coalesce(1 + sum(s.rows for s in old) // FILE_ROWS)
        rows = rows.sortWithinPartitions(*order) if order else rows
        stored = [F.col(quote(c.name)).alias(c.stored) for c in input_.columns]
        self._save(rows.select(F.lit(number).alias(INPUT), *stored), folder)
        found = counted.get
        if not found[f"rows{number}"]:
            return None
        arrived, tier = max(s.arrived for s in old), max(s.tier for s in old) + (len(old) > 1)
        merged = self._segment(f"{folder}/{INPUT}={number}", found, number, arrived, tier)
        if has_times or not (times := [s.times for s in old if s.times]):
            return merged
        return replace(merged, times=(min(t[0] for t in times), max(t[1] for t in times)))

    def order(self, number: int) -> tuple[str, ...]:
        """What the rows of a merged segment are sorted by: the position of a band, or else the first key."""
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
        """The rows of segments under the stream's own names; without those that the watermark has passed."""
        input_ = self.join.inputs[number]
        schema = self.schemas[number]
        frame = session.read.schema(schema).parquet(*self.store.paths(segments)) if segments else empty(session, schema)
        frame = frame.toDF(*(c.name for c in input_.columns))
        if watermark is not None and input_.expires:
            return frame.where(f"NOT coalesce({input_.expires} <= {watermark * 1000}, false)")
        return frame

    def side(self, session: SparkSession, side: Side, segments: tuple[Segment, ...], which: str = "") -> DataFrame:
        """The rows and columns of a side, of those of its input that fulfil a condition."""
        rows = self.rows(session, side.input, segments)
        for condition in filter(None, (side.rows, which)):
            rows = rows.where(condition)
        return rows.selectExpr(*(f"{value} AS {quote(shown)}" for shown, value in side.shown))

    def _save(self, rows: DataFrame, folder: str) -> None:
        with exact_times(rows.sparkSession):
            rows.write.mode("overwrite").partitionBy(INPUT).parquet(self.store.folder.below(folder))

    def _segment(self, folder: str, found: dict[str, Any], number: int, arrived: int, tier: int) -> Segment:
        """A segment as it was counted while it was written."""
        times, *marks = (_span(found, f"{number}_{m}") for m in range(1 + len(self.join.inputs[number].marks)))
        files, rows = self.store.files(folder), found[f"rows{number}"]
        expires, half = found[f"expires{number}"], found[f"half{number}"]
        return Segment(folder, files, rows, tuple(marks), times, expires, arrived, tier, half)


def empty(session: SparkSession, schema: StructType) -> DataFrame:
    """No rows, with columns of a schema, each of which may be NULL; Spark knows that there are none."""
    columns = StructType([StructField(f.name, f.dataType) for f in schema])
    jvm: Any = session._jvm
    spark: Any = session._jsparkSession
    found = spark.createDataFrame(jvm.java.util.ArrayList(), spark.parseDataType(columns.json()))
    return DataFrame(found, session)


def _ends(expires: str, number: int) -> list[Any]:
    """When the last of the rows, and half of them, can match no more, as aggregates."""
    return [
        F.expr(f"max({expires})").alias(f"expires{number}"),
        F.expr(f"percentile_approx({expires}, 0.5D)").alias(f"half{number}"),
    ]


def _spans(positions: list[str], number: int) -> list[Any]:
    """The least and greatest of each position, as aggregates."""
    return [
        F.expr(f"{function}({position})").alias(f"{name}{number}_{m}")
        for m, position in enumerate(positions)
        for function, name in (("min", "least"), ("max", "most"))
    ]


def _span(found: dict[str, Any], name: str) -> Span:
    least = found[f"least{name}"]
    return None if least is None else (least, found[f"most{name}"])


@contextmanager
def exact_times(session: SparkSession) -> Iterator[None]:
    """Times in Parquet as they are, and as microseconds, of which it keeps the least and greatest.

    A user may want other files; these are read here alone.
    """
    with ExitStack() as settings:
        for name, value in _EXACT.items():
            settings.enter_context(setting(session, f"spark.sql.parquet.{name}", value))
        yield


@contextmanager
def setting(session: SparkSession, name: str, value: str) -> Iterator[None]:
    """A setting of a session for a while."""
    before = session.conf.get(name)
    session.conf.set(name, value)
    try:
        yield
    finally:
        session.conf.set(name, before or "")
