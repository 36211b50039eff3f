"""``dovetail stream`` on real files, in this process on the suite's session, and once killed and begun again."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from command_line import dovetail
from stream_feeds import stamp

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

QUERY = """SELECT c.id, v.id AS view FROM clicks c JOIN views v
ON c.ts BETWEEN v.ts AND v.ts + INTERVAL 2 SECONDS"""


def arrive(folder: Path, number: int, times: list[int]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": number * 100 + n, "ts": stamp(time)}) for n, time in enumerate(times)]
    (folder / f"{number}.json").write_text("\n".join(lines))


def test_a_stream_of_files(spark: SparkSession, tmp_path: Path) -> None:
    clicks, views = tmp_path / "clicks", tmp_path / "views"
    arrive(clicks, 0, [1_000, 5_000])
    arrive(views, 0, [0, 4_000])
    query = tmp_path / "query.sql"
    query.write_text(QUERY)
    command = ["stream", query, f"--stream=clicks={clicks}/", "-s", f"views={views}", "--trigger=available now"]
    command += ["--watermark", "clicks.ts='1 second'", "-w", "views.ts=1 second", "--out", tmp_path / "out"]
    command += ["--checkpoint", tmp_path / "checkpoint"]
    done = dovetail(*command)
    assert done.exit_code == 0, done.stderr
    started, _, epochs = done.stderr.partition("the query runs; ")
    assert "HalfJoin  ◁ inner" in started
    assert "epoch 0   4 rows   " in epochs
    assert "state 4 rows, " in done.stderr  # two can match nothing any more, and lie in segments of few rows
    assert "1 epoch is done" in done.stderr

    def rows() -> Counter[tuple[int, int]]:
        return Counter((row.id, row.view) for row in spark.read.parquet(str(tmp_path / "out")).collect())

    assert rows() == Counter([(0, 0), (1, 1)])
    arrive(views, 1, [3_500, 9_000])
    arrive(clicks, 1, [9_500])
    assert dovetail(*command).exit_code == 0
    assert rows() == Counter([(0, 0), (1, 1), (1, 100), (100, 101)])
    told = json.loads(dovetail("state", tmp_path / "checkpoint", "--json").stdout)
    assert told["epoch"] == 1
    assert [i["read"] for i in told["inputs"]] == [3, 4]
    for number, name in enumerate(("clicks", "views")):
        kept = [
            json.loads(line) for line in dovetail("state", tmp_path / "checkpoint", "--dump", name).stdout.splitlines()
        ]
        assert len(kept) == told["inputs"][number]["rows"]
        assert all(set(row) == {"id", "ts"} for row in kept)
    assert {row["id"] for row in kept} == {101}
    wrong = dovetail("state", tmp_path / "checkpoint", "--dump", "click")
    assert wrong.exit_code == 2
    assert "has no input click; did you mean 'clicks'?" in wrong.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "--stream NAME=FOLDER/ is missing"),
        (("--stream=c={c}/none",), "--stream c={c}/none: there is no file or directory"),
        (("--stream=c={c}", "--watermark=c=1"), "--watermark wants NAME.COLUMN='1 minute', not 'c=1'"),
        (("--stream=c={c}", "--watermark=d.ts=1 second"), "--watermark d: there is no --stream d; the streams are c"),
        (("--stream=c={c}", "--schema=d=id INT"), "--schema d: there is no --stream d"),
        (("--stream=c={c}", "--format=xml"), "--format xml does not exist"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, given: tuple[str, ...], said: str) -> None:
    arrive(tmp_path / "c", 0, [0])
    given = tuple(word.format(c=tmp_path / "c") for word in given)
    done = dovetail("stream", "--sql=SELECT * FROM c", "--checkpoint=k", "--out=o", *given)
    assert done.exit_code == 2
    assert said.format(c=tmp_path / "c") in done.stderr.replace("\n", " ")


def test_a_watermark_needs_a_time(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "c", 0, [0])
    given = (f"--checkpoint={tmp_path}/k", f"--out={tmp_path}/o", f"--stream=c={tmp_path}/c")
    for column, said in (("id", "id is bigint, and"), ("at", "there is no column at, and")):
        done = dovetail("stream", "--sql=SELECT * FROM c", *given, f"--watermark=c.{column}=1 second")
        assert done.exit_code == 2
        assert f"{said} a watermark needs a time; the columns are id bigint, ts timestamp" in done.stderr


def test_a_view_of_changing_files(spark: SparkSession, tmp_path: Path) -> None:
    orders, customers = tmp_path / "orders", tmp_path / "customers"

    def arrive(folder: Path, number: int, *rows: dict[str, object]) -> None:
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))

    old: dict[str, object] = {"id": 1, "customer": 7, "paid": 10}
    arrive(orders, 0, {**old, "op": "insert"}, {"id": 2, "customer": 7, "paid": 5, "op": "insert"})
    arrive(customers, 0, {"id": 7, "region": "north"})
    query = "SELECT region, sum(paid) AS paid FROM orders o JOIN customers c ON o.customer = c.id GROUP BY region"
    command = ["materialize", "--sql", query, "--as", "paid", "--state", tmp_path / "state", "--changelog", "orders=op"]
    command += ["-s", f"orders={orders}", "-s", f"customers={customers}", "--json"]
    done = dovetail(*command)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == {"region": "north", "paid": 15}
    assert "new rows of o look up " in done.stderr or "HalfJoin" in done.stderr
    arrive(orders, 1, {**old, "op": "update_preimage"}, {**old, "paid": 11, "op": "update_postimage"})
    done = dovetail(*command, "--verify")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == {"region": "north", "paid": 16}
    arrive(orders, 2, {"id": 3, "customer": 7, "paid": 100, "op": "delete"})  # of a row that has not come
    done = dovetail(*command, "--verify")
    assert done.exit_code == 1, done.stderr
    assert "1 row of orders deleted more often than inserted" in done.stderr
    assert json.loads(done.stdout) == {"region": "north", "paid": -84}
    told = json.loads(dovetail("state", tmp_path / "state" / "checkpoint", "--changes", "--json").stdout)
    assert [i["gone"] for i in told["inputs"]] == [1, None]
    by_customer, together = tmp_path / "by_customer.sql", tmp_path / "together"
    by_customer.write_text(
        "SELECT c.id, count(*) AS n FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.id"
    )
    both = [*command, "--with", f"customers_paid={by_customer}", "--state", together, "--out", tmp_path / "out"]
    done = dovetail(*both, "--verify")
    assert done.exit_code == 1, done.stderr
    assert list(map(json.loads, done.stdout.splitlines())) == [
        {"view": "paid", "row": {"region": "north", "paid": -84}},
        {"view": "customers_paid", "row": {"id": 7, "n": 1}},
    ]
    assert "orders: customer, op, paid, for paid, customers_paid" in done.stderr
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["customers_paid", "paid"]
    shown = dovetail("state", together).stdout
    assert shown.startswith("2 views on one state")
    assert json.loads(dovetail("state", together / "checkpoint", "--dump", "customers").stdout)["region"] == "north"
    twice = [f"--with=paid={by_customer}"]
    for wrong, said in (
        (["--as="], "--as NAME is missing"),
        (["--changelog=o=op"], "there is no --stream o"),
        (twice, "--with paid: --as gives this name to another view"),
    ):
        done = dovetail(*command, *wrong)
        assert done.exit_code == 2
        assert said in done.stderr
