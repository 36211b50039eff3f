"""Joins of streams on state modules against a plain model: any split into epochs, any order, late rows, NULLs."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dovetail import Optimizer
from stream_feeds import FEW, START, Feed, Model, arrivals, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from stream_feeds import Row


def near(low: int, high: int) -> Callable[[Row, Row], bool]:
    """Whether a's time is from so many milliseconds before b's to so many after."""
    return lambda a, b: a[2] is not None and b[2] is not None and low <= a[2] - b[2] <= high


def equal(a: Row, b: Row) -> bool:
    return a[1] is not None and a[1] == b[1]


BAND = "a.ts BETWEEN b.ts - INTERVAL 3 SECONDS AND b.ts + INTERVAL 1 SECOND"
CASES: dict[str, tuple[str, Callable[[Row, Row], bool]]] = {
    "equality and band": (f"a.k = b.k AND {BAND}", lambda a, b: equal(a, b) and near(-3000, 1000)(a, b)),
    "band alone": (BAND, near(-3000, 1000)),
    "equality alone": ("a.k = b.k", equal),
    "one end": ("a.k = b.k AND a.ts > b.ts", lambda a, b: equal(a, b) and near(1, 10**12)(a, b)),
    "residuals": (
        f"a.k = b.k AND a.id < b.id AND {BAND} AND a.k > 0",
        lambda a, b: equal(a, b) and near(-3000, 1000)(a, b) and a[0] < b[0] and (a[1] or 0) > 0,
    ),
}

ITEMS = "a.id, a.k, unix_millis(a.ts) AS at, b.id AS bid, b.k AS bk, unix_millis(b.ts) AS bt"


def many(seed: int) -> list[list[list[Row]]]:
    """Two streams in which all is there: late rows, duplicates, NULLs, equal times, an epoch without rows."""
    random = Random(seed)

    def row(epoch: int) -> Row:
        time = epoch * 8000 + random.randrange(-9, 12) * 1000
        return random.randrange(6), random.choice([0, 1, 1, 2, None]), max(0, time) if random.random() > 0.1 else None

    return [[[row(n) for _ in range(0 if n == 1 + side else 14)] for n in range(3)] for side in range(2)]


KINDS = {
    "LEFT": "pairs left",
    "RIGHT": "pairs right",
    "FULL": "pairs left right",
    "LEFT SEMI": "semi",
    "LEFT ANTI": "left",
}


@pytest.mark.parametrize(
    ("kind", "one", "keyed"),
    [
        *((kind, False, True) for kind in KINDS),
        ("FULL", True, True),
        ("LEFT SEMI", True, True),
        ("LEFT ANTI", True, True),
        ("RIGHT", False, False),
        ("FULL", True, False),
        ("LEFT SEMI", False, False),
    ],
)
def test_rows_without_a_match(spark: SparkSession, kind: str, *, one: bool, keyed: bool) -> None:
    """All rows become final, since time goes on in the end; those without a time are final as they come.

    A row without a key would not do for that: the query drops it, and then it moves no watermark.
    """
    session = spark.newSession()
    returned = KINDS[kind].split()

    @settings(FEW)
    @example(many(2)[: 1 if one else 2], (2, 2), "a.k > 0")
    @given(arrivals(1 if one else 2), st.sampled_from([(2, 2), (0, 5)]), st.sampled_from(["a.k > 0", "b.k > 0"]))
    def check(streams: list[list[list[Row]]], delays: tuple[int, int], more: str) -> None:
        side = 0 if more.startswith("a") else 1
        delays = (delays[1], delays[1]) if one else delays
        streams = [[*epochs, [(90 + n, 98 + n, 3_000_000)]] for n, epochs in enumerate(streams)]
        with tempfile.TemporaryDirectory() as scratch:
            names = ["s"] if one else ["s", "t"]
            for name, epochs, delay in zip(names, streams, delays, strict=False):
                feed = Feed(session, Path(scratch) / name, name, delay)
                for epoch in epochs:
                    feed.add(epoch)
            shown = "a.id, a.k, unix_millis(a.ts) AS at" if kind in ("LEFT SEMI", "LEFT ANTI") else ITEMS
            query = f"SELECT {shown} FROM s a {kind} JOIN {names[-1]} b ON {'a.k = b.k AND ' * keyed}{BAND} AND {more}"
            plan = Optimizer(session).stream_plan(query)
            assert plan.join, plan.reason
            found = run(Optimizer(session), query, Path(scratch))

            def matches(*pair: Row) -> bool:
                return (equal(*pair) or not keyed) and near(-3000, 1000)(*pair) and (pair[side][1] or 0) > 0

            def ticks(row: Row, of: int) -> bool:
                if of in {"LEFT": (0,), "RIGHT": (1,), "FULL": (0, 1), "LEFT ANTI": (0,)}.get(kind, ()):
                    return True
                return (not keyed or row[1] is not None) and (of != side or (row[1] or 0) > 0)

            kept = Model(matches, (delays[0] * 1000, delays[1] * 1000), ticks=ticks).on_time(streams[0], streams[-1])
            final = [[row for row in rows if row[2] is None or row[2] < 2_900_000] for rows in kept]
            pairs = [(a, b) for a in kept[0] for b in kept[1] if matches(a, b)]
            nothing = (None, None, None)
            wanted: Counter[tuple[Any, ...]] = Counter((*at(a), *at(b)) for a, b in pairs if "pairs" in returned)
            alone = [[row for row in rows if not any(row == p[n] for p in pairs)] for n, rows in enumerate(final)]
            if "semi" in returned:
                wanted.update(at(row) for row in kept[0] if any(row == a for a, _ in pairs))
            if "left" in returned:
                wanted.update((*at(row), *(() if kind == "LEFT ANTI" else nothing)) for row in alone[0])
            if "right" in returned:
                wanted.update((*nothing, *at(row)) for row in alone[1])
            assert found == wanted

    check()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("one", [False, True], ids=["two streams", "one stream"])
def test_each_pair_once(spark: SparkSession, case: str, *, one: bool) -> None:
    session = spark.newSession()
    condition, matches = CASES[case]

    @settings(FEW)
    @example(many(1)[: 1 if one else 2], (2, 2))
    @given(arrivals(1 if one else 2), st.sampled_from([(2, 2), (0, 5), (None, 1), (None, None)]))
    def check(streams: list[list[list[Row]]], delays: tuple[int | None, int | None]) -> None:
        delays = (delays[1], delays[1]) if one else delays
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            names = ["s"] if one else ["s", "t"]
            feeds = [Feed(session, folder / n, n, d) for n, d in zip(names, delays, strict=False)]
            for feed, epochs in zip(feeds, streams, strict=True):
                for epoch in epochs:
                    feed.add(epoch)
            query = f"SELECT {ITEMS} FROM s a JOIN {names[-1]} b ON {condition}"
            opt = Optimizer(session)
            assert opt.stream_plan(query, state_modules=True).join
            found = run(opt, query, folder)

            def ticks(row: Row, side: int) -> bool:
                return case == "band alone" or (row[1] is not None and (case != "residuals" or side == 1 or row[1] > 0))

            model = Model(matches, tuple(d if d is None else d * 1000 for d in delays), ticks=ticks)
            wanted = model.join(streams[0], streams[-1])
            assert found == {(*at(a), *at(b)): n for (a, b), n in wanted.items()}

    check()


def at(row: Row) -> Row:
    """A row as Spark returns it."""
    return (row[0], row[1], None if row[2] is None else row[2] + START)
