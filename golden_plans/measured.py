"""What planning measures in a session, told by a catalog file: small queries and the rows that they return."""

from __future__ import annotations

from dataclasses import dataclass

from planner.catalog import Numbers


@dataclass(frozen=True)
class Answer:
    """The rows of every query that holds ``pieces``, one after the other; white space is one blank."""

    pieces: tuple[str, ...]
    rows: tuple[Numbers, ...]

    def to(self, query: str) -> bool:
        """Whether this is the answer to a query."""
        said, at = " ".join(query.split()), 0
        for piece in self.pieces:
            at = said.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return True


@dataclass(frozen=True)
class Measured:
    """A query that was run while a statement was planned, and its rows."""

    query: str
    rows: tuple[Numbers, ...]

    def __str__(self) -> str:
        rows = (" | ".join("NULL" if n is None else f"{n:.15g}" for n in row) for row in self.rows)
        return "\n".join([self.query, *(f"-- {row}" for row in rows)])
