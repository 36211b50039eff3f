"""What a task does with its Arrow batches, without the Spark around it."""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from dovetail.executor.connectors import splits
from dovetail.executor.connectors.memory import MemorySource
from dovetail.executor.connectors.source import LookupSource
from dovetail.executor.lookup import tasks as lookup_tasks
from dovetail.executor.lookup.tasks import AddMatches, FetchKeys, LoadSplit, Task
from dovetail.planner.errors import LookupFailed, SourceError
from dovetail.planner.logical.lookup_spec import LookupSpec

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.large_string())])
OUT = pa.schema([("id", pa.int64()), ("name", pa.string())])
LEFT = pa.record_batch({"nr": [1, 2, 3, 4, 5], "__dt_key0": pa.array([7, None, 1, 100, 7], pa.int64())})


class Twice(LookupSource):
    """Two rows for 7, one for each other key below 10."""

    def schema(self) -> pa.Schema:
        return SCHEMA

    def fetch(self, keys: pa.Table) -> pa.Table:
        ids = [key for key in keys["id"].to_pylist() if key < 10 for _ in range(2 if key == 7 else 1)]
        return pa.table({"id": ids, "name": [f"n{n}" for n in ids]}, SCHEMA)


class Sum:
    def __init__(self) -> None:
        self.counts: list[Any] = []

    def add(self, counters: Any) -> None:
        self.counts.append(counters)


def task(counts: Any, **more: Any) -> Task:
    return Task(Twice(), LookupSpec("T", ("id",), ("id", "name"), **more), SCHEMA, OUT, {}, "print", counts)


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def test_keys_to_rows() -> None:
    counts = Sum()
    given = task(counts)
    keys = pa.record_batch({"k": pa.array([7, None, 1, 100], pa.int64())})
    found = list(FetchKeys(given)(iter([keys])))
    assert rows(found) == [{"id": 7, "name": "n7"}, {"id": 7, "name": "n7"}, {"id": 1, "name": "n1"}]
    assert {batch.schema for batch in found} == {OUT}
    assert [counters.keys for counters in counts.counts] == [3]


@pytest.mark.parametrize("size", [1, 100])
def test_rows_to_joined_rows(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_tasks, "_ROWS_OUT", 2)
    found = AddMatches(task(Sum(), cache_size=size), ["number"], ["__dt_key0"])(iter([LEFT, LEFT.slice(0, 0)]))
    assert [(row["number"], [tuple(match.values()) for match in row["matches"]]) for row in rows(found)] == [
        (1, [(7, "n7"), (7, "n7")]),
        (2, []),
        (3, [(1, "n1")]),
        (4, []),
        (5, [(7, "n7"), (7, "n7")]),
    ]


def test_a_share_is_known_to_the_next_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    context = SimpleNamespace(partitionId=lambda: 5, stageId=lambda: 1)
    monkeypatch.setattr(lookup_tasks, "TaskContext", SimpleNamespace(get=lambda: context))
    counts = Sum()
    given = task(counts, shuffle=True, cache_ttl=60.0)
    for _ in range(3):
        splits._read.clear()
        assert len(rows(AddMatches(given, ["number"], ["__dt_key0"])(iter([LEFT])))) == 5
    assert [(c.keys, c.hits) for c in counts.counts] == [(3, 0), (0, 3), (0, 3)]


def test_a_part_of_a_value_that_does_not_fit_is_an_error_for_all_ways() -> None:
    listed = pa.list_(pa.timestamp("ns"))
    table = pa.table({"id": [1, 2], "name": pa.array([[0], [1001]], pa.list_(pa.int64())).cast(listed)})
    out = pa.schema([("id", pa.int64()), ("name", pa.list_(pa.timestamp("us")))])
    counts: Any = Sum()
    given = Task(MemorySource(table), LookupSpec("T", ("id",), ("id", "name")), table.schema, out, {}, "parts", counts)
    one, both = (pa.record_batch({"k": pa.array(keys, pa.int64())}) for keys in ([1], [1, 2]))
    assert len(rows(FetchKeys(given)(iter([one])))) == 1
    left = pa.record_batch({"nr": [1, 2], "__dt_key0": both.column(0)})
    numbers = pa.record_batch({"id": pa.array([0], pa.int64())})
    for way, batch in ((FetchKeys(given), both), (AddMatches(given, ["nr"], ["__dt_key0"]), left),
                       (LoadSplit(given, 1), numbers)):  # fmt: skip
        with pytest.raises(SourceError, match=r"the column name of T does not fit Spark: .* would lose data"):
            rows(way(iter([batch])))


class Broken(Twice):
    """A source whose driver fails."""

    def fetch(self, keys: pa.Table) -> pa.Table:
        try:
            raise OSError("the driver's own words")
        except OSError as error:
            raise SourceError("the table has no column name") from error


def test_the_first_line_of_a_failed_lookup_is_its_message() -> None:
    given = replace(task(Sum(), attempts=1), source=Broken())
    with pytest.raises(LookupFailed) as failed:
        list(FetchKeys(given)(iter([pa.record_batch({"k": pa.array([7], pa.int64())})])))
    error = failed.value
    lines = "".join(traceback.format_exception(error)).splitlines()
    message = f"dovetail.planner.errors.LookupFailed: {error}"
    assert "the table has no column name" in message
    assert lines[0] == lines[-1] == message
    assert "driver's own words" not in "\n".join(lines)
