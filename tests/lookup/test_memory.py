"""A lookup in memory keeps the contract of a source."""

from __future__ import annotations

import pickle

import pyarrow as pa

from dovetail.executor.connectors.memory import MemorySource

ROWS = pa.table({"k": pa.array([1, 1, 2, None], pa.int64()), "s": ["a", "b", None, "d"], "l": [[1], [], None, [2]]})


def test_rows_of_the_keys() -> None:
    source = MemorySource(ROWS)
    assert source.fetch(pa.table({"k": [1, 3]})).column("s").to_pylist() == ["a", "b"]
    assert source.fetch(pa.table({"k": [1], "s": ["b"]})).num_rows == 1
    nothing = source.fetch(pa.table({"k": [9]}))
    assert (nothing.num_rows, nothing.schema) == (0, ROWS.schema)


def test_shares_are_the_table() -> None:
    source = MemorySource(ROWS)
    shares = [pa.Table.from_batches(source.scan_split(n, 3, ("k",)), ROWS.schema) for n in range(3)]
    assert sorted(str(row) for share in shares for row in share.to_pylist()) == sorted(map(str, ROWS.to_pylist()))
    assert sum(1 in share.column("k").to_pylist() for share in shares) == 1


def test_it_travels_and_is_short() -> None:
    source = pickle.loads(pickle.dumps(MemorySource(ROWS, [("k",)])))
    assert (source.unique_keys, source.rows(), repr(source)) == ((("k",),), 4, "MemorySource(4 rows)")
