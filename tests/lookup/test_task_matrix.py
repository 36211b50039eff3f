"""The matrix of sources in the tasks of a lookup, without Spark around them: in seconds.

Types × values at their ends × as key and as value × by key, whole, from the cache and with whole rows, against a loop
in a loop over what is stored.  tests/lookup/test_source_matrix.py has Spark around it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dovetail.executor.connectors.credentials import env
from dovetail.executor.connectors.values import spark_types
from dovetail.executor.lookup.fetch_rows import Lookup, _task
from dovetail.executor.lookup.tasks import AddMatches, FetchKeys, LoadSplit
from dovetail.planner.errors import LookupFailed
from dovetail.planner.logical.lookup_spec import LookupSpec
from effort import fuzzing
from matrix_counts import matrix_counts
from source_services import Http
from source_stores import Column, Memory, Postgres, SQLite, Store, as_arrow
from source_values import MISFIT, NO_KEYS, VALUES

URI = env("DOVETAIL_TEST_POSTGRES")
STORES: dict[str, Any] = {"PostgreSQL": Postgres, "SQLite": SQLite, "HTTP": Http, "memory": Memory}
CELLS = [(name, kind) for name, store in STORES.items() for kind in store.types(store.__new__(store))]
ALL = fuzzing()  # values that do not fit
WAYS = ("keyed", "whole", "cached", "rows")

Pairs = Counter[tuple[Any, int, Any]]  # a key, the number of a row, and its value


@pytest.fixture(scope="module")
def stores(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Store]]:
    folder: Path = tmp_path_factory.mktemp("stores")
    http = Http()
    yield {store.name: store for store in (Postgres(postgres, URI), SQLite(folder), http, Memory())}
    http.close()


counts = matrix_counts("sources, in tasks")


class Real(str):
    """A floating-point number as its text, which tells 0.0 from -0.0."""

    __slots__ = ()


def plain_values(column: pa.ChunkedArray) -> list[Any]:
    """Values in which nothing is lost: floats by their text, times as numbers."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type == pa.date32() else pa.int64())
    if pa.types.is_nested(column.type):
        return [None if value is None else repr(value) for value in column.to_pylist()]
    return [Real(value) if isinstance(value, float) else value for value in column.to_pylist()]


def equal(key: Any, value: Any) -> bool:
    """Whether Spark takes two values for equal."""
    if key is None or value is None:
        return False
    if isinstance(key, Real):
        return float(key) == float(value) or (math.isnan(float(key)) and math.isnan(float(value)))
    return bool(key == value)


def distinct(keys: pa.Array) -> pa.Array:
    """Keys of which no two are equal."""
    values = plain_values(pa.chunked_array([keys]))
    return keys.take(pa.array([n for n, key in enumerate(values) if not any(equal(key, k) for k in values[:n])]))


def joined(column: Column, key: str, keys: pa.Array, way: str) -> Pairs:
    """The rows that a way to look up finds for keys."""
    source = column.source(key)
    kept = 600.0 if way == "cached" else None
    spec = LookupSpec("T", (key,), ("n", "x"), batch=3, delay=0.0, attempts=2, cache_ttl=kept)
    task = _task(Lookup(source, spec))
    batch = pa.record_batch([keys], names=["__dt_key0"])
    found: Pairs = Counter()
    if way == "rows":
        left = pa.record_batch([keys, keys], names=["k", "__dt_key0"])
        rows = pa.Table.from_batches(AddMatches(task, ["k"], ["__dt_key0"])(iter([left])))
        matches = rows["matches"].combine_chunks()
        columns = [
            rows["k"].take(matches.value_parent_indices()),
            *map(pa.chunked_array, zip(matches.flatten().flatten())),
        ]
        found.update(zip(*map(plain_values, columns), strict=True))
        return found
    if way == "whole":
        numbers = pa.record_batch([pa.array(range(3), pa.int64())], names=["id"])
        batches = list(LoadSplit(task, 3)(iter([numbers])))
    else:
        batches = list(FetchKeys(task)(iter([batch])))
        if way == "cached":
            again = list(FetchKeys(task)(iter([batch])))
            assert len(batches) == len(again)
            batches = again
    table = pa.Table.from_batches(batches, task.out)
    rows = list(zip(plain_values(table["n"]), plain_values(table["x"]), strict=True))
    for k in plain_values(pa.chunked_array([keys])):
        found.update((k, n, x) for n, x in rows if equal(k, n if key == "n" else x))
    return found


@pytest.mark.parametrize(("name", "kind"), CELLS, ids=[f"{name} {kind}" for name, kind in CELLS])
def test_a_type_of_a_source(stores: dict[str, Store], counts: Counter[str], name: str, kind: str) -> None:
    store = stores[name]
    ways = [way for way in WAYS if way != "whole" or store.can_be_whole]
    column = store.column(kind)
    type_ = spark_types(column.source("x").schema()).field("x").type
    given = {n: None if text is None else as_arrow(type_, text) for n, text in column.rows if text != MISFIT}
    stored = dict(zip(given, plain_values(pa.chunked_array([pa.concat_arrays(
        [pa.nulls(1, type_) if value is None else value for value in given.values()])])), strict=True))  # fmt: skip
    _as_values(column, ways, stored, counts)
    if column.type in NO_KEYS:
        return
    texts = list(dict.fromkeys([text for _, text in column.rows if text not in (MISFIT, None)] + VALUES[column.type]))
    keys = distinct(pa.concat_arrays([as_arrow(type_, text) for text in texts]))
    names = plain_values(pa.chunked_array([keys]))
    expected = Counter((k, n, x) for k in names for n, x in stored.items() if equal(k, x))
    assert expected
    for way in ways:
        assert joined(column, "x", keys, way) == expected, f"as key, {way}"
        counts["cells"] += len(column.rows)
        counts["rows"] += expected.total()


def _as_values(column: Column, ways: list[str], stored: dict[int, Any], counts: Counter[str]) -> None:
    good = column.one(list(stored)) if column.misfits else column
    numbers = pa.array(list(stored), pa.int32()).cast(spark_types(good.source("n").schema()).field("n").type)
    for way in ways:
        assert joined(good, "n", numbers, way) == Counter((n, n, x) for n, x in stored.items()), f"as value, {way}"
        counts["cells"] += len(stored)
        counts["rows"] += len(stored)
    for number in column.misfits if ALL else column.misfits[:1]:
        said = {}
        for way in ways:
            with pytest.raises(LookupFailed, match=r"the column x (has|came back as) ") as failed:
                joined(column.one([number]), "n", pa.array([number]).cast(numbers.type), way)
            text = str(failed.value)
            said[way] = text[text.index("the column x ") :]
            counts["cells"] += 1
            counts["errors"] += 1
        assert len(set(said.values())) == 1, said
