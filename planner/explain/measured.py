"""What one run of a query took: its seconds, and the rows and the time of each operator of Spark's plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasuredOperator:
    """An operator of Spark's plan after a run; ``rows``: the number of rows it returned, None if Spark counts none.

    ``seconds``: the sum over all tasks, None if Spark measures none.  Operators of one stage of generated code are
    measured together, at the first of them.
    """

    depth: int
    name: str
    detail: str
    rows: int | None
    seconds: float | None = None

    def __str__(self) -> str:
        figures = [f"{self.rows:,} rows"] if self.rows is not None else []
        figures += [f"{self.seconds:.3f} s"] if self.seconds is not None else []
        return f"{'  ' * self.depth}{self.name}{': ' if figures else ''}{', '.join(figures)}"


@dataclass(frozen=True)
class MeasuredRun:
    """Wall-clock seconds of a run, and its operators, parents first; none on Spark Connect."""

    seconds: float
    operators: tuple[MeasuredOperator, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.seconds:.2f} s", *map(str, self.operators)])


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
