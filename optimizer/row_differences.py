"""The rows that differ between a statement and its rewriting, side by side, and what may explain them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isclose
from typing import NamedTuple

MOST = 20
_CLOSE = 1e-9  # how far apart sums of the same floating-point numbers may be, in relation to their size


class RowDifference(NamedTuple):
    """A row as written and its counterpart in the rewriting; None where there is none."""

    written: tuple[object, ...] | None
    rewritten: tuple[object, ...] | None

    @property
    def differing(self) -> tuple[int, ...]:
        """The numbers of the columns that differ; none for a row of one side only."""
        if self.written is None or self.rewritten is None:
            return ()
        return tuple(n for n, (a, b) in enumerate(zip(self.written, self.rewritten, strict=True)) if a != b)

    def show(self, names: Iterable[str]) -> str:
        """The row on one line, with both values of the columns that differ."""
        row = self.written if self.written is not None else self.rewritten
        assert row is not None
        only = "" if self.differing else "only as written: " if self.rewritten is None else "only rewritten: "
        shown = []
        for number, (name, value) in enumerate(zip(names, row, strict=True)):
            other = self.rewritten[number] if self.rewritten and number in self.differing else None
            shown.append(
                f"{name}: {_value(value)} as written, {_value(other)} rewritten"
                if number in self.differing
                else f"{name}: {_value(value)}"
            )
        return only + "; ".join(shown)


def pair_rows(written: list[tuple[object, ...]], rewritten: list[tuple[object, ...]]) -> tuple[RowDifference, ...]:
    """Put each row of one side beside the row of the other side with which it shares most columns."""
    waiting, found = list(rewritten), []
    for row in written:
        shared = [sum(a == b for a, b in zip(row, other, strict=True)) for other in waiting]
        best = max(range(len(waiting)), key=lambda n: shared[n], default=None)
        found.append(RowDifference(row, waiting.pop(best) if best is not None and shared[best] else None))
    return (*found, *(RowDifference(None, row) for row in waiting))[:MOST]


def explain_floats(rows: tuple[RowDifference, ...], floats: frozenset[int]) -> Iterator[str]:
    """The order of floating-point sums, if the rows differ by no more than that.

    ``floats``: the numbers of the columns of type FLOAT or DOUBLE, whose values are texts.
    """
    if rows and all(row.differing and all(n in floats and _is_close(row, n) for n in row.differing) for row in rows):
        yield "the values are sums of floating-point numbers, which depend on the order in which Spark adds them"


def _is_close(row: RowDifference, number: int) -> bool:
    assert row.written is not None
    assert row.rewritten is not None
    one, other = row.written[number], row.rewritten[number]
    return one is not None and other is not None and isclose(float(str(one)), float(str(other)), rel_tol=_CLOSE)


def _value(value: object) -> str:
    return "NULL" if value is None else str(value)
