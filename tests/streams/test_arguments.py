"""Arguments of a query over streams: literals in the query, so that what is kept depends on no more than its text."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer, StateError
from dovetail.optimizer.planning.parameters import bind_literals
from stream_feeds import Feed, out_of_order, run

if TYPE_CHECKING:
    from pathlib import Path

VALUES: tuple[Any, ...] = (
    *(5, -5, 2**40, -(2**31), 1.5, -2e-7, Decimal("1.50"), Decimal("-0.05"), Decimal("1E+3")),
    *("ab:c", "", True, None, date(2024, 1, 2), datetime(2024, 1, 2, 3, 4, 5, 67)),
    *(timedelta(seconds=4), -timedelta(days=2, hours=3, microseconds=7)),
)
BAND = "SELECT a.id, b.id AS bid FROM s a JOIN s b ON a.k = b.k AND a.ts BETWEEN b.ts - :w AND b.ts"


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_literals_are_what_spark_binds(opt: Optimizer, zone: str) -> None:
    opt.session.conf.set("spark.sql.session.timeZone", zone)
    names = {f"v{n}": value for n, value in enumerate(VALUES)}
    text = f"SELECT {', '.join(f':{name} AS {name}' for name in names)}"
    said = bind_literals(text, names)
    assert said is not None
    given, plain = opt.session.sql(text, args=names), opt.session.sql(said)
    assert plain.schema == given.schema
    assert plain.collect() == given.collect()


def test_what_is_no_parameter() -> None:
    text = "SELECT v:price, m[1]:price, f(x):price, (:price), a+:price, ':price', :prices"
    assert bind_literals(text, {"price": 3}) == "SELECT v:price, m[1]:price, f(x):price, (3), a+3, ':price', :prices"
    assert bind_literals("SELECT :a", {"a": [1]}) is None
    assert bind_literals("SELECT :a", {"a": "it's"}) is None
    assert bind_literals("SELECT :a", {"a": float("nan")}) is None


def test_conditions_and_bands(opt: Optimizer, tmp_path: Path) -> None:
    feed = Feed(opt.session, tmp_path / "s", "s", delay=5)
    for epoch in range(2):
        feed.add(sorted(out_of_order(1, epoch, 12), key=lambda row: row[2] or 0))
    query, args = f"{BAND} WHERE a.id > :m", {"w": timedelta(seconds=3), "m": 1}
    found = run(opt, query, tmp_path, args=args)
    plain = opt.stream_plan(query.replace(":w", "INTERVAL 3 SECONDS").replace(":m", "1")).join
    bounded = opt.stream_plan(query, args).join
    assert plain is not None
    assert bounded is not None
    assert [i.expires for i in bounded.inputs] == [i.expires for i in plain.inputs] != [""]
    feed.table()
    batch = opt.session.sql(query.replace(" s a", " s_table a").replace(" s b", " s_table b"), args=args)
    assert found == run(opt, query, tmp_path / "spark", args=args, state_modules=False)
    assert set(found) == {tuple(row) for row in batch.collect()}
    assert opt.verify(query, args).same
    with pytest.raises(StateError, match="belongs to another value of m; give this query a checkpoint"):
        run(opt, query, tmp_path, args={**args, "m": 2})


def test_what_has_no_literal_is_left_to_spark(opt: Optimizer, tmp_path: Path) -> None:
    Feed(opt.session, tmp_path / "s", "s", delay=5)
    query = f"{BAND.replace(':w', 'INTERVAL 3 SECONDS')} WHERE array_contains(:m, a.id)"
    plan = opt.stream_plan(query, {"m": [1, 2]})
    assert plan.join is None
    assert plan.reason == "an argument cannot be written into the query as a literal"


@pytest.mark.parametrize(("number", "unit"), [("4", "SECOND"), ("+4.25", "SECOND"), ("90", "MINUTE"), ("-3", "HOUR")])
def test_a_width_that_is_cast_from_text_bounds_the_state(
    opt: Optimizer, tmp_path: Path, number: str, unit: str
) -> None:
    cast, plain = f"CAST('{number}' AS INTERVAL {unit})", f"INTERVAL '{number}' {unit}"
    assert opt.session.sql(f"SELECT {cast} = {plain}").first() == (True,)
    Feed(opt.session, tmp_path / "s", "s", delay=5)
    text = "SELECT a.id FROM s a JOIN s b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 1 DAY AND b.ts + {}"
    found, expected = (opt.stream_plan(text.format(width)).join for width in (cast, plain))
    assert found is not None
    assert expected is not None
    assert found.lasting == ()
    assert (found.inputs, found.reaches) == (expected.inputs, expected.reaches)
