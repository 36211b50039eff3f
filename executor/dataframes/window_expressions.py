"""Reads window functions of Catalyst, and the functions that Spark gives other arguments than SQL does."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dovetail.executor.dataframes.catalyst_tree import Catalyst
from dovetail.planner.errors import Refused

_RANKS = ("RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist", "NTile", "Lag", "Lead")
_BOUNDS = {
    "UnboundedPreceding": ("UNBOUNDED", "PRECEDING"),
    "UnboundedFollowing": ("UNBOUNDED", "FOLLOWING"),
    "CurrentRow": ("CURRENT ROW", None),
}


Reader = Callable[[Catalyst], exp.Expression]
"""Reads the expressions within."""


def read_window(read: Reader, node: Catalyst) -> exp.Expression:
    """Read a function with OVER; a frame that SQL would take by itself is left out."""
    function, definition = node.children
    count = len(definition.fields["partitionSpec"])
    *keys, frame = definition.children
    order = [read_order(read, key) for key in keys[count:]]
    written = exp.Window(
        this=_function(read, function),
        partition_by=[read(key) for key in keys[:count]],
        order=exp.Order(expressions=order) if order else None,
    )
    if function.name not in _RANKS and not _is_default(frame, ordered=bool(order)):
        written.set("spec", _frame(read, frame))
    return written


def read_order(read: Reader, key: Catalyst) -> exp.Ordered:
    """Read a key of an order, always with the place of NULL."""
    descending = "Descending" in str(key.fields["direction"])
    nulls_first = "NullsFirst" in str(key.fields["nullOrdering"])
    return exp.Ordered(this=read(key.child), desc=descending, nulls_first=nulls_first)


def _function(read: Reader, node: Catalyst) -> exp.Expression:
    if node.name in ("RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist"):  # Spark gives some of them the keys
        return read(Catalyst(node.name, {**node.fields, "num-children": 0}, ()))
    if node.name in ("Lag", "Lead", "NthValue"):
        called = read(node)
        return exp.IgnoreNulls(this=called) if node.fields["ignoreNulls"] else called
    return read(node)


def _is_default(frame: Catalyst, *, ordered: bool) -> bool:
    """Whether a window has this frame where none is written."""
    ends = tuple(bound.name for bound in frame.children)
    if ordered:
        return _kind(frame) == "RANGE" and ends == ("UnboundedPreceding", "CurrentRow")
    return ends == ("UnboundedPreceding", "UnboundedFollowing")


def _kind(frame: Catalyst) -> str:
    return "RANGE" if "RangeFrame" in str(frame.fields["frameType"]) else "ROWS"


def _frame(read: Reader, frame: Catalyst) -> exp.Expression:
    if frame.name != "SpecifiedWindowFrame":
        raise Refused("the frame of a window is not written as SQL")
    (start, start_side), (end, end_side) = (_bound(read, bound) for bound in frame.children)
    return exp.WindowSpec(kind=_kind(frame), start=start, start_side=start_side, end=end, end_side=end_side)


def _bound(read: Reader, bound: Catalyst) -> tuple[str | exp.Expression, str | None]:
    """Read an end of a frame; Spark writes what precedes as a negative distance."""
    if known := _BOUNDS.get(bound.name):
        return known
    if bound.name == "UnaryMinus":
        return read(bound.child), "PRECEDING"
    if bound.name == "Literal" and str(bound.fields["value"]).startswith("-"):
        positive = {**bound.fields, "value": str(bound.fields["value"])[1:]}
        return read(Catalyst("Literal", positive, ())), "PRECEDING"
    return read(bound), "FOLLOWING"
