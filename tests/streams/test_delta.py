"""Inner joins of three streams and more against a plain model: any split into epochs, any order, late rows, NULLs."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dovetail import Optimizer
from stream_feeds import FEW, START, Feed, Model, Row, arrivals, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


def equal(x: int | None, y: int | None) -> bool:
    return x is not None and x == y


def near(a: Row, b: Row, low: int, high: int) -> bool:
    """Whether a's time is from so many milliseconds before b's to so many after."""
    return a[2] is not None and b[2] is not None and low <= a[2] - b[2] <= high


@dataclass(frozen=True)
class Case:
    """A join: the streams that its relations read, its condition, and the same in Python.

    ``keyed`` are the relations whose rows without k are dropped for it, ``more`` a condition on the first alone.
    ``renamed``: the columns get names of their own in FROM, where b is a subquery without a name, and the query
    returns all of them.
    """

    streams: str
    on: tuple[str, ...]
    matches: Callable[..., bool]
    keyed: str
    more: Callable[[Row], bool] = lambda row: True
    renamed: bool = False


BAND = "{0}.ts BETWEEN {1}.ts - INTERVAL 3 SECONDS AND {1}.ts + INTERVAL 1 SECOND"
CASES = {
    "one key": Case("stu", ("a.k = b.k", "b.k = c.k"), lambda a, b, c: equal(a[1], b[1]) and equal(b[1], c[1]), "abc"),
    "all columns of another order": Case(
        "stu",
        ("TRUE", "aid = cid AND ck = bk AND bid + c.ck < 6"),
        lambda a, b, c: a[0] == c[0] and equal(c[1], b[1]) and b[0] + c[1] < 6,
        "bc",
        renamed=True,
    ),
    "chain": Case("stu", ("a.k = b.k", "b.id = c.id"), lambda a, b, c: equal(a[1], b[1]) and b[0] == c[0], "ab"),
    "star whose center comes last": Case(
        "stu",
        ("TRUE", "a.k = c.k AND b.id = c.id AND a.id + b.id <> 4 AND a.id > 0"),
        lambda a, b, c: equal(a[1], c[1]) and b[0] == c[0] and a[0] + b[0] != 4,
        "ac",
        lambda a: a[0] > 0,
    ),
    "bands": Case(
        "stu",
        (f"a.k = b.k AND {BAND.format('a', 'b')}", f"b.k = c.k AND {BAND.format('b', 'c')}"),
        lambda a, b, c: equal(a[1], b[1]) and equal(b[1], c[1]) and near(a, b, -3000, 1000) and near(b, c, -3000, 1000),
        "abc",
    ),
    "cycle": Case(
        "stu",
        ("a.k = b.k", "b.id = c.id AND c.k = a.id"),
        lambda a, b, c: equal(a[1], b[1]) and b[0] == c[0] and equal(c[1], a[0]),
        "abc",
    ),
    "a stream twice": Case(
        "sst",
        ("a.k = b.k AND a.id <= b.id", "c.id = b.id"),
        lambda a, b, c: equal(a[1], b[1]) and a[0] <= b[0] and c[0] == b[0],
        "ab",
    ),
    "one stream alone": Case(
        "sss",
        ("a.k = b.k", f"c.k = b.k AND {BAND.format('c', 'a')}"),
        lambda a, b, c: equal(a[1], b[1]) and equal(b[1], c[1]) and near(c, a, -3000, 1000),
        "abc",
    ),
    "four": Case(
        "stuv",
        ("a.k = b.k", "b.id = c.id", "c.k = d.k AND (d.id > a.id OR d.id = 0)"),
        lambda a, b, c, d: equal(a[1], b[1]) and b[0] == c[0] and equal(c[1], d[1]) and (d[0] > a[0] or d[0] == 0),
        "abcd",
    ),
}


def many(seed: int, streams: int) -> list[list[list[Row]]]:
    """Streams in which all is there: late rows, duplicates, NULLs, equal times, epochs without rows."""
    random = Random(seed)

    def row(epoch: int) -> Row:
        time = epoch * 8000 + random.randrange(-9, 12) * 1000
        return random.randrange(5), random.choice([0, 1, 2, 3, None]), max(0, time) if random.random() > 0.1 else None

    return [[[row(n) for _ in range(0 if n == 1 + side else 9)] for n in range(3)] for side in range(streams)]


@pytest.mark.parametrize("name", CASES)
def test_each_joined_row_once(spark: SparkSession, name: str) -> None:
    session, case = spark.newSession(), CASES[name]
    names = sorted(set(case.streams))

    @settings(FEW)
    @example(many(3, len(names)), 2, 2)
    @given(arrivals(len(names)), st.sampled_from([2, 5, None]), st.integers(0, 3))
    def check(streams: list[list[list[Row]]], delay: int | None, stop: int) -> None:
        """With a stop after so many epochs, from which it goes on by what was counted until then."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            feeds = [Feed(session, folder / stream, stream, delay) for stream in names]
            for feed, epochs in zip(feeds, streams, strict=True):
                for epoch in epochs[:stop]:
                    feed.add(epoch)
            aliases = "abcd"[: len(case.streams)]
            renamed = {"b": "(SELECT id AS bid, k AS bk, ts AS bts FROM {0})"} if case.renamed else {}
            relation = "{0} AS {1}({1}id, {1}k, {1}ts)" if case.renamed else "{0} {1}"
            first, *others = (renamed.get(a, relation).format(s, a) for s, a in zip(case.streams, aliases, strict=True))
            joins = " ".join(f"JOIN {o} ON {on}" for o, on in zip(others, case.on, strict=True))
            items = ", ".join(f"{a}.id AS {a}id, {a}.k AS {a}k, {a}.ts AS {a}ts" for a in aliases)
            items = "*" if case.renamed else items
            query = f"SELECT {items} FROM {first} {joins}"
            opt = Optimizer(session)
            plan = opt.stream_plan(query)
            assert plan.join, plan.reason
            assert plan.join.delta
            if stop:
                run(opt, query, folder, state_modules=None)
            for feed, epochs in zip(feeds, streams, strict=True):
                for epoch in epochs[stop:]:
                    feed.add(epoch)
            found = run(opt, query, folder, state_modules=None)

            def ticks(row: Row, side: int) -> bool:
                keyed = aliases[side] not in case.keyed or row[1] is not None
                return keyed and (side > 0 or case.more(row))

            model = Model(lambda *_: True, (None if delay is None else delay * 1000,) * len(aliases), ticks=ticks)
            kept = model.on_time(*(streams[names.index(s)] for s in case.streams))
            wanted = Counter(rows for rows in product(*kept) if case.matches(*rows) and case.more(rows[0]))
            assert Counter(map(numbers, found.elements())) == Counter(map(flat, wanted.elements()))
            if streams == many(3, len(names)):
                assert len(wanted) > 5

    check()


def numbers(row: Any) -> Row:
    """A row of Spark's with times as milliseconds."""
    return tuple(int(x.timestamp() * 1000) if hasattr(x, "timestamp") else x for x in row)  # type: ignore[return-value]


def flat(rows: tuple[Row, ...]) -> Row:
    """Joined rows as one."""
    return tuple(x if n < 2 or x is None else x + START for row in rows for n, x in enumerate(row))  # type: ignore[return-value]
