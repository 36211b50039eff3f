"""Runs a lookup in Spark: only keys go to Python, rows of the source come back, and Spark joins them.

    rows = fetch_rows(Lookup(source, spec), orders.select("customer_id"))
    orders.join(rows, orders.customer_id == rows.id, "left")

``add_matches`` sends whole rows instead, for a streaming DataFrame, which cannot be read twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import ArrayType, NumericType, StringType, StructField, StructType

from dovetail.executor.connectors import credentials
from dovetail.executor.connectors.fetch_request import FetchRequest
from dovetail.executor.connectors.source import LookupSource
from dovetail.executor.connectors.spark_table import SparkTable
from dovetail.executor.connectors.values import spark_types
from dovetail.executor.lookup.arrow_types import pack, packed_schema, unpack, why_not_in_arrow
from dovetail.executor.lookup.metrics import LookupMetrics
from dovetail.executor.lookup.spread import distribute_rows, task_count
from dovetail.executor.lookup.tasks import COUNTS, AddMatches, FetchKeys, LoadSplit, Task
from dovetail.executor.session.pyspark_versions import arrow_schema, collation, try_cast
from dovetail.planner.errors import QueryError, SourceError
from dovetail.planner.expr import quote
from dovetail.planner.logical.lookup_spec import LookupSpec

_KEY = "__dt_key"


@dataclass(frozen=True)
class Lookup:
    """A source, what a plan wants of it, and what counts the requests, if anything does."""

    source: LookupSource
    spec: LookupSpec
    metrics: LookupMetrics | None = None


def source_schema(session: SparkSession, source: LookupSource) -> StructType:
    """Return the columns of a source with Spark's types; a timestamp without a zone is TIMESTAMP_NTZ."""
    if isinstance(source, SparkTable):
        return spark_table(session, source).schema
    return _spark_schema(source, source.schema())


def _spark_schema(source: LookupSource, schema: pa.Schema) -> StructType:
    try:
        return from_arrow_schema(spark_types(schema), prefer_timestamp_ntz=True)
    except PySparkTypeError as error:
        raise SourceError(f"{source!r}: {str(error).strip()}") from None


def spark_table(session: SparkSession, source: SparkTable) -> DataFrame:
    """Return the DataFrame of a table that Spark reads itself."""
    if source.table is not None:
        return session.table(source.table)
    reader = session.read.format(source.format).options(**dict(source.options))
    return (reader.schema(source.ddl) if source.ddl else reader).load(source.path)


def fetch_rows(lookup: Lookup, keys: DataFrame) -> DataFrame:
    """Return the source's rows, with ``spec.columns``, for exactly these keys; nothing runs before an action.

    ``keys`` has one column for each of ``spec.keys``, in their order, and may have duplicates and NULLs.  Each distinct
    key without a NULL is fetched once, by one task; with ``spec.shuffle`` the key's hash determines the task, so that a
    cache serves one split of the keys.  With ``spec.full_load`` each task loads one split of the table, and rows of
    other keys come too.  A ``SparkTable`` is read by Spark itself: no key and no row goes to Python.

    Raises ``SourceError`` for columns that the source does not have and keys of another type.
    """
    session, source, spec = keys.sparkSession, lookup.source, lookup.spec
    wanted = source_schema(session, source)
    distinct = _distinct_keys(keys, spec, wanted)
    if isinstance(source, SparkTable):
        return _semi_join(source, spec, distinct)
    task = _task(lookup)
    out = StructType([wanted[name] for name in spec.columns])
    if spec.full_load and source.can_scan_split:
        shares = task_count(session)
        return session.range(0, shares, 1, shares).mapInArrow(LoadSplit(task, shares), out)
    if spec.shuffle:
        distinct = distinct.repartition(task_count(session), *distinct.columns)
    return distinct.mapInArrow(FetchKeys(task), out)


def add_matches(lookup: Lookup, left: DataFrame, on: Sequence[str], observed: str = "") -> DataFrame:
    """Return each row of ``left`` once, with a column ``matches``: an array of structs of ``spec.columns``.

    ``on`` names the key columns of ``left``, in the order of ``spec.keys``.  Conditions are decided after the lookup.
    With ``spec.shuffle`` rows with equal keys go to one task, with ``spec.skew`` those of hot keys to all of them: a
    batch is sampled for hot keys, a stream is not.  With a name in ``observed``, the lookup of a stream reports its
    counts in the query's progress.

    Raises ``SourceError`` for columns that the source does not have, keys of another type, and two columns of one name.
    """
    session, source, spec = left.sparkSession, lookup.source, lookup.spec
    wanted = source_schema(session, source)
    _refuse_duplicates([*left.columns, "matches"])
    names = [f"{_KEY}{n}" for n in range(len(spec.keys))]
    columns = [_as_key(left, name, wanted[key]).alias(new) for name, key, new in zip(on, spec.keys, names, strict=True)]
    keyed = left.select("*", *columns)
    if isinstance(source, SparkTable):
        return _spark_matches(source, spec, keyed, names)
    _check_in_arrow(left.schema, spec)
    if spec.shuffle:
        keyed = distribute_rows(session, keyed, names, skew=spec.skew and not left.isStreaming)
        if not left.isStreaming:  # equal keys are adjacent, so a cache of any size fetches each once
            keyed = keyed.sortWithinPartitions(*names)
    named = keyed.toDF(
        *(f"__dt_column{n}" for n in range(len(left.columns))), *names
    )  # mapInArrow fails on names with dots
    plain = pack(named)
    matches = StructField("matches", ArrayType(StructType([wanted[name] for name in spec.columns]), False), False)
    counting = bool(observed) and left.isStreaming
    counts = [StructField("__dt_counts", from_arrow_type(COUNTS), True)] if counting else []
    rows = plain.mapInArrow(
        AddMatches(_task(lookup), left.columns, names, counting),
        StructType([*packed_schema(left.schema), matches, *counts]),
    )
    rows = unpack(rows, left.schema)
    return _observe(rows, observed) if counting else rows


def _check_in_arrow(schema: StructType, spec: LookupSpec) -> None:
    """Raise ``QueryError`` for columns of the left side that cannot travel to Python and back."""
    for field in schema:
        if why := why_not_in_arrow(field.dataType):
            raise QueryError(
                f"A column to the left of the lookup join with {spec.table} is {field.dataType.simpleString()}, with "
                f"{why}. Arrow cannot take it to Python, where rows are looked up. Cast it, or leave it out"
            )


def _observe(rows: DataFrame, name: str) -> DataFrame:
    """Drop the last column, and report its sums in the progress of the query."""
    last = f"__dt_counts_{len(rows.columns)}"
    named = rows.toDF(*rows.columns[:-1], last)
    sums = [fn.coalesce(fn.sum(fn.col(last)[f.name]), fn.lit(0)).alias(f.name) for f in COUNTS]
    return named.observe(name, *sums).drop(last)


def _task(lookup: Lookup) -> Task:
    source, spec = lookup.source, lookup.spec
    schema = source.schema()
    FetchRequest(source, spec, schema)  # errors of a lookup are raised here, not in a task
    environment = credentials.environment_of(source)
    pickled: bytes = cloudpickle.dumps((source, spec, environment))  # type: ignore[no-untyped-call]
    fingerprint = hashlib.sha256(pickled).hexdigest()
    accumulator = lookup.metrics.accumulator if lookup.metrics is not None else None
    out = _spark_schema(source, pa.schema([schema.field(name) for name in spec.columns]))
    return Task(source, spec, schema, arrow_schema(out), environment, fingerprint, accumulator)


def _distinct_keys(keys: DataFrame, spec: LookupSpec, wanted: StructType) -> DataFrame:
    if len(keys.columns) != len(spec.keys):
        raise SourceError(f"{spec.table} is fetched by {len(spec.keys)} columns, not by {len(keys.columns)}")
    plain = keys.toDF(*(f"{_KEY}{n}" for n in range(len(spec.keys))))
    columns = [
        _as_key(plain, name, wanted[key]).alias(name) for name, key in zip(plain.columns, spec.keys, strict=True)
    ]
    typed = plain.select(*columns)
    for name in typed.columns:
        typed = typed.filter(fn.col(name).isNotNull())
    return typed.distinct()


def _as_key(frame: DataFrame, name: str, wanted: StructField) -> Column:
    """Cast a column to the type of the source's key; NULL if no value of that type equals it."""
    column = frame[quote(name)]
    have, want = frame.schema[name].dataType, wanted.dataType
    for type_ in (have, want):
        if isinstance(type_, StringType) and collation(type_) != "UTF8_BINARY":
            raise SourceError(f"{name}: a string with the collation {collation(type_)} cannot be a lookup key")
    if have == want or (isinstance(have, StringType) and isinstance(want, StringType)):
        return column
    if not (isinstance(have, NumericType) and isinstance(want, NumericType)) or _real(have) != _real(want):
        raise SourceError(
            f"{name} is {have.simpleString()}, {wanted.name} of the lookup table is {want.simpleString()}; cast one"
        )
    narrowed = try_cast(column, quote(name), want)
    return fn.when(narrowed == column, narrowed)


def _real(type_: NumericType) -> bool:
    return type_.typeName() in ("float", "double")


def _semi_join(source: SparkTable, spec: LookupSpec, keys: DataFrame) -> DataFrame:
    table = _filter_constants(spark_table(keys.sparkSession, source), spec)
    renamed = keys.toDF(*(f"{_KEY}{n}" for n in range(len(spec.keys))))
    on = [table[quote(key)] == renamed[name] for key, name in zip(spec.keys, renamed.columns, strict=True)]
    rows = table if spec.full_load else table.join(renamed, on, "left_semi")
    return rows.select(*map(quote, spec.columns))


def _spark_matches(source: SparkTable, spec: LookupSpec, keyed: DataFrame, names: list[str]) -> DataFrame:
    table = _filter_constants(spark_table(keyed.sparkSession, source), spec)
    columns = [table[quote(name)] for name in spec.columns]
    keys = [table[quote(key)].alias(f"{name}_of_table") for key, name in zip(spec.keys, names, strict=True)]
    grouped = table.groupBy(*keys).agg(fn.collect_list(fn.struct(*columns)).alias("matches"))
    on = [keyed[name] == grouped[f"{name}_of_table"] for name in names]
    none = fn.array().cast(grouped.schema["matches"].dataType)
    left = [keyed[quote(name)] for name in keyed.columns if name not in names]
    return keyed.join(grouped, on, "left").select(*left, fn.coalesce(grouped["matches"], none).alias("matches"))


def _filter_constants(table: DataFrame, spec: LookupSpec) -> DataFrame:
    for name, value in spec.constants:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            table = table.filter(fn.lit(False))
        else:
            table = table.filter(table[quote(name)] == fn.lit(value))
    return table


def _refuse_duplicates(names: list[str]) -> None:
    folded = [name.lower() for name in names]
    if twice := [name for name in names if folded.count(name.lower()) > 1]:
        raise SourceError(f"two columns of the lookup join have the name {twice[0]}; rename one")
