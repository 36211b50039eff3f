"""Sorts the rows of a window by one number before they are shuffled, so that the sort of the window merges runs.

Spark sorts the rows of a window by comparing whole rows once their first key is equal, which is most of the time of a
window over many rows.  By one BIGINT it sorts much faster, by radix.  Rows that were sorted so before the shuffle come
in runs, and the sort of the window, a TimSort, merges runs that it finds (Peters, "listsort.txt").  Where all rows
have one key, this also moves most of the sorting out of the one task that the window has.

The number is only a hint.  The window sorts by its own keys all the same, so rows may be presorted by an approximation:
16 bits of a hash of the keys, then 46 bits of the position, then the rank among equal positions.
"""

from __future__ import annotations

from dovetail.planner.types.schema import SqlType

_HASH_BITS, _RANK_BITS = 16, 2
_ROW_BITS = 64 - _HASH_BITS
_MICROSECOND_BITS = 52
"""Of timestamps from 1970 to 2112."""
_DROPPED = _MICROSECOND_BITS - (_ROW_BITS - _RANK_BITS)
_LOG_SCALE = 1 << (_ROW_BITS - _RANK_BITS - 7)
"""The logarithm of a BIGINT, of base 2, takes 7 bits before the point, with its sign."""


def presort_notes(of: SqlType | None) -> tuple[str, ...]:
    """The note of a plan on presorted rows, of a window by positions of a type; none where rows are not presorted."""
    return ("rows are sorted by one number before they are shuffled",) if of and _is_presortable(of) else ()


def presort(keys: list[str], position: str, of: SqlType | None, rank: str, *, descending: bool = False) -> str:
    """A BIGINT by which rows are nearly sorted as by keys, position and rank; empty where the type has no such number.

    ``keys``, ``position`` and ``rank`` are columns; the rank is from 0 to 3.  ``of``: the type of the position.
    Nothing in the number raises an error.
    """
    if of is None or not _is_presortable(of):
        return ""
    number = _number(position, of, exact=not keys)
    place = f"shiftleft({'~' if descending else ''}{number}, {_RANK_BITS}) | {rank}"
    if not keys:
        return place
    return f"shiftleft(xxhash64({', '.join(keys)}), {_ROW_BITS}) | ({place}) & {(1 << _ROW_BITS) - 1}"


def _is_presortable(of: SqlType) -> bool:
    """Whether values of a type have a number in their order: numbers, dates and timestamps have one."""
    return of.numeric or of.temporal


def _number(position: str, of: SqlType, *, exact: bool) -> str:
    """A BIGINT in the order of the positions: of the usual ones 46 bits, or as many as there are."""
    if of.name == "date":
        return f"CAST(unix_date({position}) AS BIGINT)"
    if of.numeric:
        value = f"CAST({position} AS DOUBLE)"
        return f"try_cast(sign({value}) * log2(1 + abs({value})) * {_LOG_SCALE} AS BIGINT)"
    instant = position if of.name == "timestamp" else f"try_cast({position} AS TIMESTAMP_LTZ)"
    return f"unix_micros({instant})" if exact else f"shiftright(unix_micros({instant}), {_DROPPED})"
