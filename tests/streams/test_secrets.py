"""Values of arguments and paths of sinks may be secrets: no file beside a state and no error has them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from dovetail import Optimizer, OptionError, QueryError, Sink, StateError
from stream_feeds import Feed

if TYPE_CHECKING:
    from pathlib import Path

SECRET, OTHER = "hunter2-Pa$$word", "swordfish-0815"
TEXTS = (
    "a.name = :key",
    "a.name = :key AND b.id > :least",
    "b.id > :least AND concat(a.name, :key) <> b.name",
    "a.name = :key OR b.name = :key",
    "CASE WHEN a.name = :key THEN true ELSE b.id > 1 END",
)


@pytest.fixture
def named(opt: Optimizer, tmp_path: Path) -> Optimizer:
    for name in "st":
        feed = Feed(opt.session, tmp_path / name, f"{name}_ids")
        feed.add([(n, n % 2, 0) for n in range(4)])
        opt.session.sql(f"CREATE TEMP VIEW {name} AS SELECT id, k, concat('n', id) AS name FROM {name}_ids")
    return opt


def exposed(folder: Path) -> list[str]:
    """The files that have one of the values, of those that are no data."""
    files = [p for p in folder.rglob("*") if p.is_file() and not p.name.endswith((".parquet", ".crc"))]
    assert files
    return [str(p) for p in files if any(word.encode() in p.read_bytes() for word in (SECRET, OTHER))]


@pytest.mark.parametrize("text", TEXTS)
def test_joins_of_streams(named: Optimizer, tmp_path: Path, text: str) -> None:
    query = f"SELECT a.id, b.id AS bid FROM s a JOIN t b ON a.k = b.k WHERE {text}"
    args = {"key": SECRET, **({"least": 0} if ":least" in text else {})}
    checkpoint, sink = tmp_path / "checkpoint", Sink("parquet", tmp_path / f"out-{SECRET}")
    more = {"checkpoint": checkpoint, "sink": sink, "trigger": "available now", "state_modules": True}
    for _ in range(2):  # a second start recognizes them
        named.stream(query, args, **more).awaitTermination()  # type: ignore[arg-type]
    with pytest.raises(StateError, match="belongs to another value of key; give this query a checkpoint") as error:
        named.stream(query, {**args, "key": OTHER}, **more)  # type: ignore[arg-type]
    assert not any(word in str(error.value) for word in (SECRET, OTHER))
    assert exposed(checkpoint) == []


@pytest.mark.parametrize("text", TEXTS)
def test_views(named: Optimizer, tmp_path: Path, text: str) -> None:
    query = (
        f"SELECT a.k, count(*) AS n, max(a.name <> :key) AS m FROM s a JOIN t b ON a.k = b.k WHERE {text} GROUP BY a.k"
    )
    args = {"key": SECRET, **({"least": 0} if ":least" in text else {})}
    sink = Sink("parquet", tmp_path / f"out-{SECRET}")
    for state, sinks in ((tmp_path / "alone", {}), (tmp_path / "told", {"sink": sink})):
        for _ in range(2):
            named.materialize(query, "kept", state=state, args=args, **sinks)  # type: ignore[arg-type]
        with pytest.raises(StateError, match="belongs to another value of key, in SELECT") as error:
            named.materialize(query, "kept", state=state, args={**args, "key": OTHER}, **sinks)  # type: ignore[arg-type]
        assert not any(word in str(error.value) for word in (SECRET, OTHER))
    with pytest.raises(StateError, match="another sink: parquet, update; now: none") as error:
        named.materialize(query, "kept", state=tmp_path / "told", args=args)
    assert SECRET not in str(error.value)
    assert exposed(tmp_path / "alone") == exposed(tmp_path / "told") == []


def test_what_cannot_run_is_refused_without_them(named: Optimizer, tmp_path: Path) -> None:
    join = "FROM s a JOIN t b ON a.k = b.k"
    for query in (
        f"SELECT a.id, (SELECT max(:key)) AS m {join}",
        f"SELECT a.id {join} AND concat(a.name, :key) < CAST(current_timestamp() AS STRING)",
        f"SELECT a.id {join} GROUP BY concat(:key, (SELECT 1)), a.id",
    ):
        with pytest.raises(QueryError) as error:
            named.materialize(query, "kept", state=tmp_path / "state", args={"key": SECRET})
        assert SECRET not in str(error.value)
        assert SECRET not in named.stream_plan(query, {"key": SECRET}).reason


@pytest.mark.parametrize("text", TEXTS)
def test_views_on_one_state(named: Optimizer, tmp_path: Path, text: str) -> None:
    """What is kept for both is written down, and so says nothing of a text among the arguments; the rows are right."""
    join = "FROM s a JOIN t b ON a.k = b.k"
    queries = {
        "one": f"SELECT a.k, count(*) AS n {join} WHERE {text} GROUP BY a.k",
        "two": f"SELECT a.id {join} AND a.id > 1",
    }
    args = {"key": "n2", **({"least": 0} if ":least" in text else {})}
    found = named.materialize_all(queries, state=tmp_path / "state", args=args)
    for name in "st":
        Feed(named.session, tmp_path / name, f"{name}_ids").table()
        named.session.sql(f"CREATE TEMP VIEW {name}_all AS SELECT id, k, concat('n', id) AS name FROM {name}_ids_table")
    batch = queries["one"].replace("s a", "s_all a").replace("t b", "t_all b")
    used = {name: value for name, value in args.items() if f":{name}" in batch}
    assert sorted(found["one"].table().collect()) == sorted(named.session.sql(batch, args=used).collect())
    other = {**args, "key": SECRET}
    named.materialize_all(queries, state=tmp_path / "secret", args=other)
    named.materialize_all(queries, state=tmp_path / "secret", args=other)
    assert exposed(tmp_path / "secret") == []
    with pytest.raises(StateError, match="belongs to another value of key") as error:
        named.materialize_all(queries, state=tmp_path / "secret", args={**args, "key": OTHER})
    assert not any(word in str(error.value) for word in (SECRET, OTHER))


def test_what_a_sink_prints() -> None:
    sink = Sink("kafka", f"s3a://user:{SECRET}@bucket/out", ("k",), {"kafka.sasl.jaas.config": OTHER})
    assert repr(sink) == "Sink(format='kafka', partition_by=('k',))"


def test_folders_that_no_file_system_takes(named: Optimizer, tmp_path: Path) -> None:
    """As with ``s3a://KEY:SECRET@bucket``: Hadoop's own error has the whole path."""
    query, sink = "SELECT a.id FROM s a JOIN t b ON a.k = b.k", Sink("json", f"file://u:{SECRET}@{tmp_path}/out")
    with pytest.raises(OptionError, match=r"cannot be used: .*Wrong FS") as one:
        named.materialize(query, "v", state=tmp_path / "view", sink=sink)
    with pytest.raises(OptionError, match=r"cannot be used: .*Wrong FS") as other:
        named.stream(query, checkpoint=tmp_path / "checkpoint", sink=sink, state_modules=True)
    assert SECRET not in f"{one.value}{other.value}"


def test_a_sink_that_has_become_a_file(named: Optimizer, tmp_path: Path) -> None:
    out, query = tmp_path / "out", "SELECT a.id FROM s a JOIN t b ON a.k = b.k"
    view = named.materialize(query, "v", state=tmp_path / "view", sink=Sink("json", out))
    shutil.rmtree(out)
    out.touch()
    Feed(named.session, tmp_path / "s", "s_ids").add([(9, 1, 0)])
    with pytest.raises(StateError, match=r"The sink .*/out cannot be written: \w+"):
        view.refresh()
