"""How far the rows of a band lie from a row: what is read, as which frame, and what is left alone."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dovetail.planner.band.linear import ConditionScope, Side
from dovetail.planner.band.offsets import Offsets, read_offsets
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.types.schema import SqlType, sql_type


def offsets(text: str, type_: str = "int", *, ansi: bool = True, has_fixed_offset_zone: bool = True) -> Offsets:
    def side(tree: exp.Expression) -> Side | str | None:
        found = {{"x": "left", "y": "right"}[c.table] for c in tree.find_all(exp.Column)}
        return "both" if len(found) > 1 else next(iter(found), None)

    def type_of(tree: exp.Expression) -> SqlType | None:
        return sql_type(type_) if isinstance(tree, exp.Column) else None

    scope = ConditionScope(side, type_of, lambda tree: tree.sql(dialect="spark"), ansi, has_fixed_offset_zone)  # type: ignore[arg-type]
    return read_offsets((Scalar(c).tree for c in text.split(" && ")), sql_type(type_), scope)


@pytest.mark.parametrize(
    ("text", "type_", "low", "high"),
    [
        ("y.t BETWEEN x.t - 600 AND x.t", "int", -600, 0),
        ("y.t > x.t - 600 && y.t < x.t", "bigint", -599, -1),
        ("x.t < y.t && y.t - x.t <= 5", "int", 1, 5),
        ("abs(x.t - y.t) < 3", "int", -2, 2),
        ("y.t < x.t", "int", None, -1),
        ("y.t >= x.t", "int", 0, None),
        ("y.t + 2.5 >= x.t", "int", -2, None),
        ("y.t <= x.t - 0.25", "decimal(10,2)", None, -25),
        ("y.t < x.t - 0.255", "decimal(10,2)", None, -26),
        ("y.t > x.t - INTERVAL 7 DAYS && y.t <= x.t", "date", -6, 0),
        ("datediff(x.t, y.t) BETWEEN 1 AND 3", "date", -3, -1),
        ("y.t BETWEEN x.t - INTERVAL 10 MINUTES AND x.t", "timestamp", -600_000_000, 0),
        ("y.t > x.t - INTERVAL 1 DAY && y.t <= x.t", "timestamp_ntz", 1 - 86_400_000_000, 0),
        ("y.t <= x.t", "string", None, 0),
    ],
)
def test_what_lies_how_far_away(text: str, type_: str, low: int | None, high: int | None) -> None:
    found = offsets(text, type_)
    assert (found.low, found.high) == (low, high)


@pytest.mark.parametrize(
    ("text", "type_", "reason"),
    [
        ("y.t BETWEEN x.t - 0.5 AND x.t", "double", "have no fixed step"),
        ("y.t < x.t", "string", "have no fixed step"),
        ("y.t <= x.t + 3e0", "int", "may round"),
        ("y.t <= x.t + 3D", "int", "may round"),
        ("y.t <= x.t * 2", "int", "not a distance"),
        ("y.t <= x.t + x.t", "int", "constant distance"),
        ("y.t <= x.u", "int", "one column"),
        ("y.t >= x.t - INTERVAL 1 MONTH", "timestamp", "same for every row"),
        ("y.t >= x.t - INTERVAL 10 MINUTES", "date", "less than a day"),
        ("y.t > x.t && y.t < x.t", "int", "so narrow"),
        ("y.t >= x.t - 9223372036854775807", "bigint", "too far"),
        ("y.t <> x.t", "int", "not a comparison"),
        ("y.t >= x.t - 1", "decimal(38,2)", "longer than a DECIMAL"),
    ],
)
def test_what_is_left_alone(text: str, type_: str, reason: str) -> None:
    with pytest.raises(Refused) as no:
        offsets(text, type_)
    assert reason in no.value.reason


def test_a_day_where_clocks_change_is_left_alone() -> None:
    with pytest.raises(Refused):
        offsets("y.t >= x.t - INTERVAL 1 DAY", "timestamp", has_fixed_offset_zone=False)
    with pytest.raises(Refused):
        offsets("x.t - y.t <= INTERVAL 1 MINUTE", "timestamp", has_fixed_offset_zone=False)
    assert offsets("y.t >= x.t - INTERVAL 1 MINUTE", "timestamp", has_fixed_offset_zone=False).low == -60_000_000


def test_sums_that_may_wrap_are_left_alone() -> None:
    with pytest.raises(Refused):
        offsets("y.t >= x.t - 1", ansi=False)
    assert offsets("y.t >= x.t", ansi=False).low == 0


@pytest.mark.parametrize(
    ("found", "order", "frame"),
    [
        (Offsets(-600, 0, sql_type("int")), "CAST(c AS BIGINT)", "600 PRECEDING AND CURRENT ROW"),
        (Offsets(None, -1, sql_type("bigint")), "CAST(c AS DECIMAL(20,0))", "UNBOUNDED PRECEDING AND 1BD PRECEDING"),
        (Offsets(None, 0, sql_type("bigint")), "c", "UNBOUNDED PRECEDING AND CURRENT ROW"),
        (Offsets(1, None, sql_type("date")), "c DESC", "UNBOUNDED PRECEDING AND 1 PRECEDING"),
        (Offsets(-5, None, sql_type("date")), "c DESC", "UNBOUNDED PRECEDING AND 5 FOLLOWING"),
        (Offsets(1, 90, sql_type("decimal(9,2)")), "c", "0.01 FOLLOWING AND 0.90 FOLLOWING"),
        (Offsets(0, 1_500_000, sql_type("timestamp")), "c", "CURRENT ROW AND INTERVAL '1.500000' SECOND FOLLOWING"),
    ],
)
def test_as_a_window(found: Offsets, order: str, frame: str) -> None:
    assert found.order("c", nulls=False) == order
    assert found.frame == f"RANGE BETWEEN {frame}"
