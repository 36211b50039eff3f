"""What the sink of a view adds up to: one result of its query after each refresh, though another one would be right."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import udf

from dovetail import Optimizer, QueryError, Sink, StateError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

JOIN = "FROM s a JOIN t b ON a.id = b.id"


def begin(opt: Optimizer, folder: Path) -> None:
    for name in ("s", "t"):
        (folder / name).mkdir()
        schema = "id INT, g INT, d DOUBLE"
        opt.session.readStream.schema(schema).json(str(folder / name)).createOrReplaceTempView(name)


def grow(folder: Path, epoch: int) -> None:
    random = Random(epoch)
    for name in ("s", "t"):
        for part in range(3):
            first = epoch * 30 + part * 10
            rows = [{"id": n, "g": random.randrange(3), "d": random.random() * 10**n} for n in range(first, first + 10)]
            (folder / name / f"{epoch}-{part}.json").write_text("\n".join(map(json.dumps, rows)))


def added_up(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    found = Counter[tuple[Any, ...]]()
    for *row, kind in rows:
        found[tuple(map(repr, row))] += {"insert": 1, "delete": -1}[kind]
    return Counter({row: n for row, n in found.items() if n})


TIES = {
    "ties": f"SELECT a.id, a.g {JOIN} ORDER BY a.g LIMIT 7",
    "any": f"SELECT a.id, a.g {JOIN} LIMIT 7",
    "sums": f"SELECT a.g % 1 AS g, sum(a.d) AS d, avg(b.d) AS e, first(a.id) AS f {JOIN} GROUP BY a.g % 1",
}


def test_all_changes_add_up_to_one_result(opt: Optimizer, tmp_path: Path) -> None:
    begin(opt, tmp_path)
    taken = TIES
    sinks: Any = {name: Sink("parquet", tmp_path / f"out_{name}") for name in taken}
    before: dict[str, Counter[Any]] = {name: Counter() for name in taken}
    counts = {"ties": 7, "any": 7, "sums": 1}
    for epoch in range(6):
        grow(tmp_path, epoch)
        opt.session.conf.set("spark.sql.shuffle.partitions", str(1 + epoch % 3))  # another order of rows
        opt.session.conf.set("spark.sql.files.maxPartitionBytes", str(200 + 400 * (epoch % 2)))
        views = opt.materialize_all(taken, state=tmp_path / "state", sinks=sinks)
        for name in taken:
            found = added_up(opt.session.read.parquet(str(tmp_path / f"out_{name}")).collect())
            assert set(found.values()) == {1}, name
            assert len(found) == counts[name]
            last = added_up(views[name].changes().collect())
            assert found - before[name] == +last, name
            assert before[name] - found == -last, name
            before[name] = found
        told = added_up(opt.session.read.parquet(str(tmp_path / "out_ties")).collect())
        assert Counter(g for _, g in told) == Counter(repr(row.g) for row in views["ties"].table().collect())
    assert len(list((tmp_path / "state" / "views" / "ties").glob("result-*"))) == 2


CHANGING = (
    "rand()",
    "`rand`()",
    "uuid()",
    "now()",
    "current_timestamp",
    "current_date()",
    "unix_timestamp()",
    "user()",
)


@pytest.mark.parametrize("item", [*CHANGING, "draw()"])
def test_items_of_another_value_each_time(opt: Optimizer, tmp_path: Path, item: str) -> None:
    begin(opt, tmp_path)
    grow(tmp_path, 0)
    opt.session.udf.register("draw", udf(lambda: 1, "int").asNondeterministic())
    query = f"SELECT a.id, {item} AS x {JOIN}"
    with pytest.raises(QueryError, match="a function that may return another value at each refresh"):
        opt.materialize(query, "v", state=tmp_path / "state", sink=Sink("parquet", tmp_path / "out"))
    assert not (tmp_path / "state").exists()
    assert opt.materialize(query, "v", state=tmp_path / "state").table().count() == 30


def test_a_name_like_a_function_is_a_name(opt: Optimizer, tmp_path: Path) -> None:
    begin(opt, tmp_path)
    query = f"SELECT a.id AS now, a.g AS `rand`, a.id AS current_user {JOIN}"
    opt.materialize(query, "v", state=tmp_path / "state", sink=Sink("parquet", tmp_path / "out"))


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_a_number_that_comes_again_has_the_same_rows(
    opt: Optimizer, tmp_path: Path, together: bool, after: bool
) -> None:
    """So that a sink may skip a number that it knows; nothing is lost then."""
    begin(opt, tmp_path)
    calls: list[tuple[int, Counter[Any]]] = []
    taken: dict[int, Counter[Any]] = {}
    fails = [False]

    def sink(rows: DataFrame, number: int) -> None:
        found = added_up(rows.collect())
        calls.append((number, found))
        if fails[0] and not after:
            raise ValueError("no connection")
        taken.setdefault(number, found)
        if fails[0]:
            raise ValueError("the answer to COMMIT was lost")

    query = f"SELECT a.id, count(*) AS n {JOIN} GROUP BY a.id"

    def refreshed() -> Counter[Any]:
        if together:
            queries = {"v": query, "w": query.replace("count", "max").replace("(*)", "(b.id)")}
            view = opt.materialize_all(queries, state=tmp_path / "state", sinks={"v": sink})["v"]
        else:
            view = opt.materialize(query, "v", state=tmp_path / "state", sink=sink)
        return Counter(tuple(map(repr, row)) for row in view.table().collect())

    for epoch in range(4):
        grow(tmp_path, epoch)
        fails[0] = epoch in (1, 2)
        if fails[0]:
            with pytest.raises(ValueError, match=r"no connection|was lost"):
                refreshed()
        else:
            shown = refreshed()
    assert sum(taken.values(), Counter()) == shown
    assert len(shown) == 120
    by_number: dict[int, Counter[Any]] = {}
    for number, found in calls:
        assert by_number.setdefault(number, found) == found


def test_a_stored_result_that_is_gone(opt: Optimizer, tmp_path: Path) -> None:
    begin(opt, tmp_path)
    query = f"SELECT a.id, count(*) AS n {JOIN} GROUP BY a.id"
    more: Any = {"state": tmp_path / "state", "sink": Sink("parquet", tmp_path / "out")}
    grow(tmp_path, 0)
    opt.materialize(query, "v", **more)
    next((tmp_path / "state").glob("result-*/kept-*.parquet")).unlink()
    grow(tmp_path, 1)
    with pytest.raises(Exception, match=r"result-.* is missing, one of the files"):
        opt.materialize(query, "v", **more)


def test_another_clause_above_the_join(opt: Optimizer, tmp_path: Path) -> None:
    begin(opt, tmp_path)
    more: Any = {"state": tmp_path / "state", "sink": Sink("parquet", tmp_path / "out")}
    query = f"SELECT a.g, count(*) AS n {JOIN} GROUP BY a.g"
    for epoch, clause in enumerate(("", " HAVING count(*) > 12", " HAVING count(*) > 12", "", " ORDER BY n LIMIT 2")):
        if epoch != 1:
            grow(tmp_path, epoch)
        view = opt.materialize(query + clause, "v", **more)
        found = added_up(opt.session.read.parquet(str(tmp_path / "out")).collect())
        assert found == Counter(tuple(map(repr, row)) for row in view.table().collect()), clause
    with pytest.raises(StateError, match=r"rows with other columns than struct<n:.*> *, which this query returns"):
        opt.materialize(f"SELECT count(*) AS n {JOIN} GROUP BY a.g", "v", **more)
