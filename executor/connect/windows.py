"""Reads window functions, and functions of values that are arguments, of Spark Connect's protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dovetail.executor.connect.plan import check_fields, enum_name
from dovetail.planner.errors import Refused

_KINDS = {"FRAME_TYPE_ROW": "ROWS", "FRAME_TYPE_RANGE": "RANGE"}


Reader = Callable[[Any], exp.Expression]
"""Reads the expressions within."""


def read_window(read: Reader, message: Any) -> exp.Expression:
    """Read a function with OVER.  Raises ``Refused``."""
    check_fields(message, "a window", "window_function", "partition_spec", "order_spec", "frame_spec")
    order = [read_order(read, key) for key in message.order_spec]
    return exp.Window(
        this=read(message.window_function),
        partition_by=[read(key) for key in message.partition_spec],
        order=exp.Order(expressions=order) if order else None,
        spec=_frame(read, message.frame_spec) if message.HasField("frame_spec") else None,
    )


def read_order(read: Reader, key: Any) -> exp.Ordered:
    """Read a key of an order, always with the place of NULL.  Raises ``Refused`` for one without a direction."""
    check_fields(key, "a key of an order", "child", "direction", "null_ordering")
    direction, nulls = enum_name(key, "direction"), enum_name(key, "null_ordering")
    if "UNSPECIFIED" in f"{direction} {nulls}":
        raise Refused("an order without a direction is not written as SQL")
    descending, nulls_first = direction.endswith("DESCENDING"), nulls.endswith("FIRST")
    return exp.Ordered(this=read(key.child), desc=descending, nulls_first=nulls_first)


def _frame(read: Reader, frame: Any) -> exp.Expression:
    kind = _KINDS.get(enum_name(frame, "frame_type"))
    if kind is None:
        raise Refused("a frame without a kind is not written as SQL")
    (start, start_side), (end, end_side) = (
        _bound(read, frame.lower, "PRECEDING"),
        _bound(read, frame.upper, "FOLLOWING"),
    )
    return exp.WindowSpec(kind=kind, start=start, start_side=start_side, end=end, end_side=end_side)


def _bound(read: Reader, bound: Any, side: str) -> tuple[str | exp.Expression, str | None]:
    """Read an end of a frame; what precedes is a negative number."""
    kind = bound.WhichOneof("boundary")
    if kind == "current_row":
        return "CURRENT ROW", None
    if kind == "unbounded":
        return "UNBOUNDED", side
    value = read(bound.value)
    if isinstance(value, exp.Neg):
        return value.this, "PRECEDING"
    return value, "FOLLOWING"


def read_lambda(read: Reader, message: Any) -> exp.Expression:
    """Read ``(x, y) -> x + y``."""
    check_fields(message, "a lambda function", "function", "arguments")
    return exp.Lambda(this=read(message.function), expressions=[_name(a) for a in message.arguments])


def read_variable(message: Any) -> exp.Expression:
    """Read an argument of a lambda function."""
    return _name(message)


def _name(message: Any) -> exp.Expression:
    check_fields(message, "a variable", "name_parts")
    (name,) = message.name_parts
    return exp.to_identifier(str(name), quoted=True)
