"""Results of the measurement queries of planning, as a catalog file declares them."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.planner.catalog import Numbers


@dataclass(frozen=True)
class Answer:
    """The rows for every query that contains ``pieces`` in order; white space is normalized."""

    pieces: tuple[str, ...]
    rows: tuple[Numbers, ...]

    def matches(self, query: str) -> bool:
        """Whether a query contains the pieces in order."""
        text, at = " ".join(query.split()), 0
        for piece in self.pieces:
            at = text.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return True


@dataclass(frozen=True)
class Measured:
    """A measurement query that ran during planning, and its rows."""

    query: str
    rows: tuple[Numbers, ...]

    def __str__(self) -> str:
        rows = (" | ".join("NULL" if n is None else f"{n:.15g}" for n in row) for row in self.rows)
        return "\n".join([self.query, *(f"-- {row}" for row in rows)])
