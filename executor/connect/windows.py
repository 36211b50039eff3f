"""Writes window functions, and functions of values that are arguments, of Spark Connect's protocol."""

from __future__ import annotations

from typing import Any, Protocol

from sqlglot import exp

from dovetail.executor.connect.plan import check_fields, enum_name
from dovetail.planner.errors import Refused

_KINDS = {"FRAME_TYPE_ROW": "ROWS", "FRAME_TYPE_RANGE": "RANGE"}


class Writer(Protocol):
    """What writes the expressions within."""

    def tree(self, message: Any, /) -> exp.Expression:
        """Write an expression."""


def write_window(writer: Writer, message: Any) -> exp.Expression:
    """Write a function with OVER.  Raises ``Refused``."""
    check_fields(message, "a window", "window_function", "partition_spec", "order_spec", "frame_spec")
    order = [write_order(writer, key) for key in message.order_spec]
    return exp.Window(
        this=writer.tree(message.window_function),
        partition_by=[writer.tree(key) for key in message.partition_spec],
        order=exp.Order(expressions=order) if order else None,
        spec=_frame(writer, message.frame_spec) if message.HasField("frame_spec") else None,
    )


def write_order(writer: Writer, key: Any) -> exp.Expression:
    """Write a key of an order, always with the place of NULL.  Raises ``Refused`` for one without a direction."""
    check_fields(key, "a key of an order", "child", "direction", "null_ordering")
    direction, nulls = enum_name(key, "direction"), enum_name(key, "null_ordering")
    if "UNSPECIFIED" in f"{direction} {nulls}":
        raise Refused("an order without a direction is not written as SQL")
    descending, nulls_first = direction.endswith("DESCENDING"), nulls.endswith("FIRST")
    return exp.Ordered(this=writer.tree(key.child), desc=descending, nulls_first=nulls_first)


def _frame(writer: Writer, frame: Any) -> exp.Expression:
    kind = _KINDS.get(enum_name(frame, "frame_type"))
    if kind is None:
        raise Refused("a frame without a kind is not written as SQL")
    (start, start_side), (end, end_side) = (
        _bound(writer, frame.lower, "PRECEDING"),
        _bound(writer, frame.upper, "FOLLOWING"),
    )
    return exp.WindowSpec(kind=kind, start=start, start_side=start_side, end=end, end_side=end_side)


def _bound(writer: Writer, bound: Any, side: str) -> tuple[str | exp.Expression, str | None]:
    """Write an end of a frame; what precedes is a negative number."""
    kind = bound.WhichOneof("boundary")
    if kind == "current_row":
        return "CURRENT ROW", None
    if kind == "unbounded":
        return "UNBOUNDED", side
    value = writer.tree(bound.value)
    if isinstance(value, exp.Neg):
        return value.this, "PRECEDING"
    return value, "FOLLOWING"


def write_lambda(writer: Writer, message: Any) -> exp.Expression:
    """Write ``(x, y) -> x + y``."""
    check_fields(message, "a lambda function", "function", "arguments")
    return exp.Lambda(this=writer.tree(message.function), expressions=[_name(a) for a in message.arguments])


def write_variable(writer: Writer, message: Any) -> exp.Expression:
    """Write an argument of a lambda function."""
    return _name(message)


def _name(message: Any) -> exp.Expression:
    check_fields(message, "a variable", "name_parts")
    if len(message.name_parts) != 1:
        raise Refused("a variable of several names is not written as SQL")
    return exp.to_identifier(str(message.name_parts[0]), quoted=True)
