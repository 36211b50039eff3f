"""Left joins of changelogs: the changes that have been returned add up to the join of the rows that are there."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dovetail import Optimizer, QueryError, Sink
from dovetail.planner.expr import quote
from sessions import for_few_rows
from stream_feeds import FEW

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = "id INT, k INT, v INT, st STRUCT<k: INT>"
KIND = "Kind of `Change`"
CHANGES = f"{SCHEMA}, {quote(KIND)} STRING"
Row = tuple[int | None, int | None, int | None]
TAKES = {"update_preimage", "delete"}


@pytest.fixture
def opt(spark: SparkSession) -> Optimizer:
    """An optimizer on a session of its own."""
    return Optimizer(for_few_rows(spark))


@dataclass
class Table:
    """A table that changes at random: its changes as a stream of files, and the rows that are there.

    No two rows of one with a key have the same ``id``, unless it is NULL.
    """

    session: SparkSession
    folder: Path
    name: str
    keyed: bool
    rows: list[Row] = field(default_factory=list)
    files: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        stream = self.session.readStream.schema(CHANGES).option("maxFilesPerTrigger", 1)
        stream.json(str(self.folder)).createOrReplaceTempView(self.name)

    def change(self, random: Random, size: int) -> None:
        """The next file: rows that come, go and change, also their keys."""
        changes: list[tuple[str, Row]] = []
        for _ in range(size):
            old = random.choice(self.rows) if self.rows and random.random() < 0.55 else None
            if old:
                self.rows.remove(old)
            there = {row[0] for row in self.rows if row[0] is not None} if self.keyed else set()
            ids = [i for i in (None, 0, 1, 2, 3, 4) if i not in there]
            new = random.choice(ids), random.choice((None, 0, 1, 2, 3)), random.choice((None, 0, 1, 2))
            if old and random.random() < 0.4:
                changes.append(("delete", old))
                continue
            changes += [("update_preimage", old), ("update_postimage", new)] if old else [("insert", new)]
            self.rows.append(new)
        random.shuffle(changes)
        self.write(changes)

    def write(self, changes: list[tuple[str, Row]]) -> None:
        """The next file."""
        lines = [json.dumps({"id": i, "k": k, "v": v, "st": _struct(k), KIND: op}) for op, (i, k, v) in changes]
        hidden = self.folder / f".{self.files}"
        hidden.write_text("\n".join(lines))
        os.utime(hidden, (1_700_000_000 + self.files,) * 2)
        hidden.rename(self.folder / f"{self.files:04}.json")
        self.files += 1


def _struct(k: int | None) -> dict[str, int] | None:
    """The struct of a row, NULL for some."""
    return None if k is None else {"k": k}


def tables_of(opt: Optimizer, folder: Path, names: str = "stu") -> list[Table]:
    """Tables that are changelogs; the first has no key."""
    tables = [Table(opt.session, folder / name, name, n > 0) for n, name in enumerate(names)]
    for table in tables:
        opt.declare_changelog(table.name, KIND, ["id"] if table.keyed else [])
    return tables


def run(opt: Optimizer, query: str, folder: Path) -> Counter[str]:
    """What the changes that have been returned add up to."""
    sink = Sink("parquet", folder / "out")
    opt.stream(query, checkpoint=folder / "checkpoint", sink=sink, trigger="available now").awaitTermination()
    found: Counter[str] = Counter()
    for *row, op in opt.session.read.parquet(str(folder / "out")).collect():
        found[str(tuple(row))] += -1 if op in TAKES else 1
    return Counter({row: n for row, n in found.items() if n})


def batch(tables: list[Table], query: str) -> Counter[str]:
    """What the query returns over the rows that are there."""
    session = tables[0].session
    for table in tables:
        rows = [(*row, _struct(row[1])) for row in table.rows]
        session.createDataFrame(rows, SCHEMA).createOrReplaceTempView(f"{table.name}_table")
        query = query.replace(f" {table.name} ", f" {table.name}_table ")
    return Counter(str(tuple(row)) for row in session.sql(query).collect())


JOINS = {
    "two": "SELECT a.id, a.k, b.v, b.id AS bid FROM s a LEFT JOIN t b ON a.k = b.id AND b.v >= a.v AND a.id <> 3",
    "star": """SELECT a.id, b.v + 1 AS v, c.k AS ck FROM s a LEFT JOIN t b ON a.k = b.id LEFT JOIN u c ON a.v = c.id
        WHERE b.v IS NULL OR b.v > 0""",
    "chain": "SELECT a.id, b.id AS x, c.id AS y, c.v FROM s a LEFT JOIN t b ON a.k = b.id LEFT JOIN u c ON b.k = c.id",
    "mixed": """SELECT a.id, b.v, c.v AS cv FROM t b RIGHT JOIN s a ON a.k = b.id JOIN u c ON a.v = c.id
        WHERE coalesce(b.v, 9) > 0""",
    "itself": "SELECT a.id, a.k, b.v FROM t a LEFT JOIN t b ON a.k = b.id AND a.v <> b.v",
    "dropped": """SELECT a.id, b.v, c.v AS cv FROM s a LEFT JOIN t b ON a.k <= b.id AND a.k = b.k
        JOIN u c ON b.v = c.id""",
    "dropped in a chain": """SELECT a.id, b.v, c.v AS cv FROM t b RIGHT JOIN s a ON a.k = b.id
        LEFT JOIN u c ON b.v = c.id JOIN s d ON c.k = d.id WHERE d.k < 4""",
    "later": """SELECT a.id, b.id AS bid, c.v FROM t b RIGHT JOIN s a ON a.k = b.id
        LEFT JOIN u c ON a.v = c.id AND coalesce(b.v, 1) = c.k""",
    "fields of both": """SELECT a.id, a.st.k AS ak, b.v, c.st.k AS ck FROM s a
        LEFT JOIN t b ON a.k = b.id AND a.st.k >= b.st.k LEFT JOIN u c ON a.v = c.id AND c.st.k <> b.st.k""",
    "field": """SELECT a.id, b.v FROM s a
        LEFT JOIN (SELECT id, v, named_struct('v', v, 'k', k) AS row FROM t WHERE true) b
        ON a.k = b.id AND b.row.k <> a.v""",
}


@pytest.mark.hypothesis
@FEW
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(JOINS)))
@example(seed=3, name="chain")
@example(seed=6, name="later")
@example(seed=4, name="field")
@example(seed=5, name="fields of both")
@example(seed=12, name="fields of both")
def test_what_has_been_returned_is_the_join_of_what_is_there(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int, name: str
) -> None:
    opt, folder, random = Optimizer(for_few_rows(spark)), tmp_path_factory.mktemp("left"), Random(seed)
    tables = [t for t in tables_of(opt, folder) if f" {t.name} " in JOINS[name]]
    for n in range(2):
        for table in tables:
            if n or table.name != "t" or len(tables) == 1:  # rows come before what they match
                table.change(random, random.randrange(4, 9))
        tables[-1].change(random, 6)
        assert run(opt, JOINS[name], folder) == batch(tables, JOINS[name])


def test_a_kept_view_over_a_left_join(opt: Optimizer, tmp_path: Path) -> None:
    query = """SELECT b.v, count(*) AS n, count(b.id) AS matched, sum(a.id) AS total
        FROM s a LEFT JOIN t b ON a.k = b.id GROUP BY b.v"""
    random, tables = Random(7), tables_of(opt, tmp_path / "in", "st")
    for _ in range(2):
        for table in tables:
            table.change(random, 9)
        view = opt.materialize(query, "kept", state=tmp_path / "state")
        assert view.accumulators, "a row for each group, not the joined rows"
        assert Counter(str(tuple(row)) for row in opt.session.table("kept").collect()) == batch(tables, query)
    assert view.verify().same


def test_views_that_share_a_state(opt: Optimizer, tmp_path: Path) -> None:
    """Left joins beside inner ones of the same streams."""
    queries = {
        "chain": JOINS["chain"],
        "inner": "SELECT b.v, count(*) AS n FROM s a JOIN t b ON a.k = b.k GROUP BY b.v",
        "outer": "SELECT a.k, count(b.id) AS n FROM s a LEFT JOIN t b ON a.k = b.id GROUP BY a.k",
    }
    random, tables = Random(11), tables_of(opt, tmp_path / "in")
    for n in range(3):
        for table in tables:
            table.change(random, 9)
        opt.materialize_all({k: q for k, q in queries.items() if n or k != "outer"}, state=tmp_path / "state")
        for name, query in queries.items():
            if n or name != "outer":
                found = opt.session.table(name).collect()
                assert Counter(str(tuple(row)) for row in found) == batch(tables, query), (n, name)


def test_a_key_that_two_rows_have_ends_the_query_before_it_returns_anything(opt: Optimizer, tmp_path: Path) -> None:
    tables = tables_of(opt, tmp_path / "in", "st")
    tables[0].write([("insert", (1, 5, None))])
    tables[1].write([("insert", (5, 1, 1)), ("insert", (None, 1, 1)), ("insert", (None, 1, 1)), ("insert", (5, 2, 2))])
    with pytest.raises(Exception, match="Two rows of t have id = 5 in epoch 0, and the declared key allows one"):
        run(opt, JOINS["two"], tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_table_that_only_grows_by_a_key_that_is_declared(opt: Optimizer, tmp_path: Path) -> None:
    facts, grows = tables_of(opt, tmp_path / "in", "st")
    query = "SELECT a.id, b.v FROM s a LEFT JOIN grown b ON a.k = b.id"
    opt.session.readStream.schema(CHANGES).json(str(grows.folder)).createOrReplaceTempView("grown")
    with pytest.raises(QueryError, match=r"several matches in grown.* declare_key\('grown', \[its key\]\)"):
        run(opt, query, tmp_path)
    opt.declare_key("grown", ["id"])
    facts.write([("insert", (n, n % 3, None)) for n in range(5)])
    assert run(opt, query, tmp_path) == {f"({n}, None)": 1 for n in range(5)}
    grows.write([("insert", (0, 1, 10)), ("insert", (1, 1, 11))])
    facts.write([("delete", (4, 1, None)), ("insert", (5, 1, None))])
    assert run(opt, query, tmp_path) == {"(0, 10)": 1, "(1, 11)": 1, "(2, None)": 1, "(3, 10)": 1, "(5, 11)": 1}
