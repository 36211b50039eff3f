"""As-of joins of DataFrames return what ``pandas.merge_asof`` returns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from dovetail import Optimizer
from dovetail.planner.errors import QueryError
from effort import examples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

# a column over a number n, and a distance over a number of such steps
TIMES: dict[str, tuple[str, Callable[[int], Any]]] = {
    "INT": ("CAST(n AS INT)", lambda n: n),
    "BIGINT": ("n + 9223372036854775700", lambda n: n),
    "DECIMAL": ("CAST(n AS DECIMAL(7, 2)) / 4", lambda n: n / 4),
    "DOUBLE": ("n / 8D", lambda n: n / 8),
    "DATE": ("date_from_unix_date(n)", lambda n: timedelta(days=n, hours=7)),
    "TIMESTAMP": ("timestamp_seconds(1730608200 + n * 900)", lambda n: timedelta(minutes=15 * n)),  # two hours are one
    "TIMESTAMP in half days": (  # a local day has 25 hours then
        "timestamp_seconds(1730606400 + n * 43200)",
        lambda n: timedelta(hours=12 * n),
    ),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'2026-03-29 00:00:00' + n * INTERVAL '1' HOUR", lambda n: timedelta(hours=n)),
}
ROWS = st.lists(st.tuples(st.sampled_from("abc") | st.none(), st.integers(-9, 9) | st.none()), max_size=12)


@pytest.fixture(scope="module")
def opt(spark: SparkSession) -> Optimizer:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    return Optimizer(session)


def frame(opt: Optimizer, rows: list[tuple[str | None, int | None]], time: str) -> DataFrame:
    """Rows with a number, a key, a time and the number that it is made of."""
    values = [
        f"({i}, {'NULL' if k is None else repr(k)}, {'NULL' if n is None else n})" for i, (k, n) in enumerate(rows)
    ]
    table = f"VALUES {', '.join(values) or '(0, NULL, NULL)'} AS d(id, k, n){'' if rows else ' WHERE false'}"
    return opt.session.sql(f"SELECT id, CAST(k AS STRING) AS k, {time} AS ts, CAST(n AS INT) AS n FROM {table}")


def by_pandas(rows: dict[str, list[tuple[str | None, int | None]]], keyed: bool, **arguments: Any) -> list[Any]:
    """The number of each left row that has a key and a time, and the number of the time of its match."""
    known = {side: [(i, k, n) for i, (k, n) in enumerate(found) if n is not None] for side, found in rows.items()}
    if keyed:
        known = {side: [row for row in found if row[1] is not None] for side, found in known.items()}
    left, right = (
        pd.DataFrame(known[side], columns=["id", "k", "n"]).astype({"n": "int64"}).sort_values("n", kind="stable")
        for side in ("left", "right")
    )
    right["at"] = right["n"]
    if left.empty or right.empty:
        return [(i, None) for i in left["id"]]
    merged = pd.merge_asof(left, right[["k", "n", "at"]], on="n", by="k" if keyed else None, **arguments)
    return [(i, None if pd.isna(at) else int(at)) for i, at in zip(merged["id"], merged["at"], strict=True)]


@settings(max_examples=examples(0.4))
@given(
    left=ROWS,
    right=ROWS,
    time=st.sampled_from(list(TIMES)),
    keyed=st.booleans(),
    direction=st.sampled_from(["backward", "forward", "nearest"]),
    tolerance=st.none() | st.integers(0, 4),
    exact=st.booleans(),
    how=st.sampled_from(["left", "inner"]),
)
def test_the_rows_of_pandas(
    opt: Optimizer,
    left: list[Any],
    right: list[Any],
    time: str,
    keyed: bool,
    direction: Any,
    tolerance: int | None,
    exact: bool,
    how: Any,
) -> None:
    column, distance = TIMES[time]
    within = {} if tolerance is None else {"tolerance": tolerance}
    matched = dict(
        by_pandas({"left": left, "right": right}, keyed, direction=direction, allow_exact_matches=exact, **within)
    )
    expected = [(i, matched.get(i)) for i in range(len(left)) if how == "left" or matched.get(i) is not None]
    found = opt.join_asof(
        frame(opt, left, column),
        frame(opt, right, column).withColumnRenamed("id", "seq"),
        on="ts",
        by="k" if keyed else (),
        direction=direction,
        tolerance=None if tolerance is None else distance(tolerance),
        allow_exact_matches=exact,
        how=how,
    )
    note(f"{expected}")
    assert found.columns == ["id", "k", "ts", "n", "seq", *([] if keyed else ["k_right"]), "n_right"]
    assert sorted((row["id"], row["n_right"]) for row in found.collect()) == expected
    assert opt.session.catalog.listTables() == []


@pytest.mark.parametrize("time", ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"])
def test_a_tolerance_without_end(opt: Optimizer, time: str) -> None:
    left, right = (frame(opt, [("a", n)], TIMES[time][0]) for n in (3, -9))
    found = opt.join_asof(left, right, on="ts", tolerance=timedelta.max, how="inner")
    assert found.count() == 1


def test_decimals_are_not_rounded(opt: Optimizer) -> None:
    """The last digit of a bound decides; where Spark would round it, there is no plan."""
    left, right = (
        opt.session.sql(f"SELECT CAST('{n}' AS DECIMAL(30, 18)) AS x") for n in ("1.5", "1.4" + "0" * 16 + "1")
    )
    for tolerance, matches in (("0.1", 1), ("0." + "0" + "9" * 16, 0), ("0." + "0" + "9" * 17, 1)):
        found = opt.join_asof(left, right, on="x", tolerance=Decimal(tolerance), how="inner")
        assert found.count() == matches, tolerance
    wide = left.select(left.x.cast("DECIMAL(38, 18)").alias("x"))
    with pytest.raises(QueryError, match="would be rounded to 38 digits; cast both columns"):
        opt.join_asof(wide, wide, on="x", tolerance=0)


def test_names_of_columns(opt: Optimizer) -> None:
    left = opt.session.sql("SELECT 1 AS `a{b}`, 'x' AS `k.1`, 7 AS V, 5 AS `at`")
    right = opt.session.sql("SELECT 4 AS `c``d`, 'x' AS key, 8 AS v")
    found = opt.join_asof(left, right, left_on="AT", right_on="c`d", left_by="k.1", right_by=["key"])
    assert found.columns == ["a{b}", "k.1", "V", "at", "c`d", "key", "v_right"]
    assert [tuple(row) for row in found.collect()] == [(1, "x", 7, 5, 4, "x", 8)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"on": "n", "left_on": "n"}, "either on, or left_on and right_on"),
        ({"left_on": "n"}, "either on, or left_on and right_on"),
        ({"on": "nowhere"}, "the left DataFrame has no column nowhere; it has id, k, ts, n"),
        ({"on": "n", "left_by": ["k", "id"], "right_by": "k"}, "left_by has 2 columns, and right_by has 1"),
        ({"on": "n", "direction": "both"}, "direction is 'backward', 'forward' or 'nearest', not 'both'"),
        ({"on": "n", "how": "full"}, "how is 'left' or 'inner', not 'full'"),
        ({"on": "n", "tolerance": timedelta(1)}, "the tolerance is a timedelta, and n is of type INT"),
        ({"on": "ts", "tolerance": 3}, "the tolerance is a number, and ts is of type DATE; pass a timedelta"),
        ({"on": "n", "tolerance": -1}, "not a finite number from 0 on"),
        ({"on": "n", "tolerance": float("nan")}, "not a finite number from 0 on"),
        ({"on": "k", "direction": "nearest"}, "which are of types STRING and STRING; cast both"),
        ({"on": "n", "suffix": ""}, "two columns would be called id; pass another suffix"),
        ({"left_on": "ts", "right_on": "n"}, "compares DATE with INT"),
    ],
)
def test_what_it_does_not_take(opt: Optimizer, arguments: dict[str, Any], said: str) -> None:
    one = frame(opt, [("a", 1)], TIMES["DATE"][0])
    with pytest.raises(QueryError, match=said):
        opt.join_asof(one, one, **arguments)
