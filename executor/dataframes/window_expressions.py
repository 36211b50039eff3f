"""Writes window functions of Catalyst, and the functions that Spark gives other arguments than SQL does."""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp

from dovetail.executor.dataframes.catalyst_tree import Catalyst
from dovetail.planner.errors import Refused

_RANKS = ("RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist", "NTile", "Lag", "Lead")
_BOUNDS = {
    "UnboundedPreceding": ("UNBOUNDED", "PRECEDING"),
    "UnboundedFollowing": ("UNBOUNDED", "FOLLOWING"),
    "CurrentRow": ("CURRENT ROW", None),
}


class Writer(Protocol):
    """What writes the expressions within."""

    def tree(self, node: Catalyst, /) -> exp.Expression:
        """Write an expression."""


def write_window(writer: Writer, node: Catalyst) -> exp.Expression:
    """Write a function with OVER; a frame that SQL would take by itself is left out."""
    function, definition = node.children
    count = len(definition.fields["partitionSpec"])
    *keys, frame = definition.children
    order = [write_order(writer, key) for key in keys[count:]]
    written = exp.Window(
        this=_function(writer, function),
        partition_by=[writer.tree(key) for key in keys[:count]],
        order=exp.Order(expressions=order) if order else None,
    )
    if function.name not in _RANKS and not _is_default(frame, ordered=bool(order)):
        written.set("spec", _frame(writer, frame))
    return written


def write_order(writer: Writer, key: Catalyst) -> exp.Expression:
    """Write a key of an order, always with the place of NULL."""
    descending = "Descending" in str(key.fields["direction"])
    nulls_first = "NullsFirst" in str(key.fields["nullOrdering"])
    return exp.Ordered(this=writer.tree(key.child), desc=descending, nulls_first=nulls_first)


def _function(writer: Writer, node: Catalyst) -> exp.Expression:
    if node.name in ("RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist"):  # Spark gives some of them the keys
        return writer.tree(Catalyst(node.name, {**node.fields, "num-children": 0}, ()))
    if node.name in ("Lag", "Lead", "NthValue"):
        called = writer.tree(node)
        return exp.IgnoreNulls(this=called) if node.fields["ignoreNulls"] else called
    return writer.tree(node)


def _is_default(frame: Catalyst, *, ordered: bool) -> bool:
    """Whether a window has this frame where none is written."""
    ends = tuple(bound.name for bound in frame.children)
    if ordered:
        return _kind(frame) == "RANGE" and ends == ("UnboundedPreceding", "CurrentRow")
    return ends == ("UnboundedPreceding", "UnboundedFollowing")


def _kind(frame: Catalyst) -> str:
    return "RANGE" if "RangeFrame" in str(frame.fields["frameType"]) else "ROWS"


def _frame(writer: Writer, frame: Catalyst) -> exp.Expression:
    if frame.name != "SpecifiedWindowFrame":
        raise Refused("the frame of a window is not written as SQL")
    (start, start_side), (end, end_side) = (_bound(writer, bound) for bound in frame.children)
    return exp.WindowSpec(kind=_kind(frame), start=start, start_side=start_side, end=end, end_side=end_side)


def _bound(writer: Writer, bound: Catalyst) -> tuple[str | exp.Expression, str | None]:
    """Write an end of a frame; Spark writes what precedes as a negative distance."""
    if known := _BOUNDS.get(bound.name):
        return known
    if bound.name == "UnaryMinus":
        return writer.tree(bound.child), "PRECEDING"
    if bound.name == "Literal" and str(bound.fields["value"]).startswith("-"):
        positive = {**bound.fields, "value": str(bound.fields["value"])[1:]}
        return writer.tree(Catalyst("Literal", positive, ())), "PRECEDING"
    return writer.tree(bound), "FOLLOWING"
