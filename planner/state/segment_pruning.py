"""Computes the filter on stored rows that a probe can match, by which Parquet's statistics prune files.

A reach bounds positions, and files store the minimum and maximum of columns.  So if a position is that of a plain
column, the condition compares the column itself with a literal of its type.
"""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.planner.band.axis import Axis
from dovetail.planner.expr import Scalar, canonical
from dovetail.planner.state.compaction import FEW_ROWS
from dovetail.planner.state.manifest import Segment, Span
from dovetail.planner.state.spec import Input, Reach, StoredColumn
from dovetail.planner.types.schema import sql_type

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_LITERALS = {
    "timestamp": "timestamp_micros({}L)",
    "timestamp_ntz": "timestampadd(MICROSECOND, {}L, TIMESTAMP_NTZ '1970-01-01 00:00:00')",
    "date": "date_from_unix_date({})",
    **dict.fromkeys(_INTEGERS, "{}L"),
}
SHARE = 8  # an end that leaves less than an eighth of the positions behind is no filter
_MOST = {"date": 2**31 - 1, **dict.fromkeys(_INTEGERS, 2**63 - 1)}
# Spark 4.3 turns a timestamp in the first second of all into microseconds with an overflow, where Parquet is filtered.
_MOST_MICROS = 2**63 - 1 - 86_400_000_000


def prune_segments(
    state: Input, segments: Sequence[Segment], side: int, probing: Sequence[Span], reaches: Sequence[Reach]
) -> str:
    """Return the condition on rows of ``side``, in ``segments`` of ``state``, that rows of the other side can match.

    Nothing where hardly a row would stay behind, or rows are few: a filter has other literals in each epoch, so its
    generated code is compiled anew, which takes longer than to read some thousand rows.  ``probing``: the least and
    greatest of the other side's marks; the ``reaches`` are of these two sides.
    """
    if sum(s.rows for s in segments) < FEW_ROWS:
        return ""
    ends: dict[tuple[int, str], int] = {}
    for reach in reaches:
        (small_side, small), (_, large) = reach.small, reach.large
        span = probing[large if small_side == side else small]
        if span is None:
            continue
        if small_side == side:
            end, bound = (small, "<="), span[1] - reach.least
            ends[end] = min(bound, ends.get(end, bound))
        else:
            end, bound = (large, ">="), span[0] + reach.least
            ends[end] = max(bound, ends.get(end, bound))
    condition = (
        _compared(state, mark, sign, end)
        for (mark, sign), end in ends.items()
        if _cuts([s.marks[mark] for s in segments], sign, end)
    )
    return " AND ".join(filter(None, condition))


def _cuts(spans: Sequence[Span], sign: str, end: int) -> bool:
    """Whether enough of what segments span lies beyond an end."""
    known = [span for span in spans if span]
    if not known:
        return False
    least, greatest = min(span[0] for span in known), max(span[1] for span in known)
    beyond = greatest - end if sign == "<=" else end - least
    return beyond * SHARE > greatest - least


def _compared(state: Input, mark: int, sign: str, end: int) -> str:
    """A position compared with one that is known; nothing where it is not that of a column whose literals are known."""
    positions = {column: _position(column) for column in state.columns}
    wanted = state.marks[mark]
    found = [c for c, text in positions.items() if text == wanted]
    found = found or [c for c, text in positions.items() if text.lower() == wanted.lower()]
    if len(found) != 1:
        return ""
    (column,) = found
    type_ = sql_type(column.type).name
    if abs(end) > _MOST.get(type_, _MOST_MICROS):
        return ""
    return f"{_quoted(column)} {sign} {_LITERALS[type_].format(end)}"


def _position(column: StoredColumn) -> str:
    """The position of a column, as marks are written."""
    type_ = sql_type(column.type)
    if type_.name not in _LITERALS:
        return ""
    axis = Axis("number" if type_.name in _INTEGERS else type_.name, exact=True)
    return canonical(Scalar(axis.position(_quoted(column), type_)).tree)


def _quoted(column: StoredColumn) -> str:
    return "`" + column.name.replace("`", "``") + "`"
