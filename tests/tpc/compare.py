"""Are two results the same multiset of rows? Exactly, but for the last digits of floating point."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Values = tuple[Any, ...]

TOLERANCE = 1e-9  # relative; sums of doubles depend on the order of their rows


def without_partner(rows: Iterable[Sequence[Any]], others: Iterable[Sequence[Any]]) -> list[Values]:
    """The rows that find no equal row among the others, each of which can be the partner of one row only."""
    free: dict[Values, list[Values]] = defaultdict(list)
    for row in others:
        exact, floats = _split(row)
        free[exact].append(floats)
    for candidates in free.values():
        candidates.sort(key=_order)
    lonely = []
    for row in sorted((tuple(row) for row in rows), key=lambda row: _order(_split(row)[1])):
        exact, floats = _split(row)
        candidates = free[exact]
        partner = next((at for at, other in enumerate(candidates) if _close(floats, other)), None)
        if partner is None:
            lonely.append(row)
        else:
            del candidates[partner]
    return lonely


def assert_same_rows(actual: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]]) -> None:
    """Fail with a few examples of what is missing and what is too much."""
    missing, extra = without_partner(expected, actual), without_partner(actual, expected)
    assert not missing, f"{len(missing)} of {len(expected)} rows are missing, such as {missing[:3]}; {extra[:3]}"
    assert not extra, f"{len(extra)} of {len(actual)} rows are too much, such as {extra[:3]}"


def _split(row: Sequence[Any]) -> tuple[Values, Values]:
    """A row without its floats, which must be equal, and the floats alone, which must be close."""
    exact = tuple(float if isinstance(value, float) else value for value in row)
    return exact, tuple(value for value in row if isinstance(value, float))


def _order(floats: Values) -> Values:
    return tuple((math.isnan(value), value) for value in floats)


def _close(left: Values, right: Values) -> bool:
    return all(
        (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=TOLERANCE)
        for a, b in zip(left, right, strict=True)
    )
