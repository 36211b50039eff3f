"""What one run of a query took: its seconds, and the rows of each operator of Spark's plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasuredOperator:
    """An operator of Spark's plan after a run; ``rows``: the number of rows it returned, None if Spark counts none."""

    depth: int
    name: str
    detail: str
    rows: int | None


@dataclass(frozen=True)
class MeasuredRun:
    """Wall-clock seconds of a run, and its operators, parents first; none on Spark Connect."""

    seconds: float
    operators: tuple[MeasuredOperator, ...] = ()


@dataclass(frozen=True)
class MeasuredRuns:
    """A run of the statement as written, and one of its rewriting."""

    written: MeasuredRun
    rewritten: MeasuredRun

    @property
    def seconds(self) -> dict[str, float]:
        """The seconds of both ways, rounded to milliseconds."""
        return {"written": round(self.written.seconds, 3), "rewritten": round(self.rewritten.seconds, 3)}

    def __str__(self) -> str:
        return f"{self.written.seconds:.2f} s as written, {self.rewritten.seconds:.2f} s rewritten"
