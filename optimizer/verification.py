"""The result of a verification: whether both ways return the same rows, and what each took."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.optimizer.row_differences import RowDifference
from dovetail.planner.errors import plural
from dovetail.planner.explain.measured import MeasuredRuns


@dataclass(frozen=True)
class Verification:
    """The result: whether the rows are the ``same``, their number, and the rows (with multiplicity) of one side only.

    ``schema``: the difference of the columns; then no rows were compared.  ``late``: rows of streams that both sides
    dropped because they arrived behind the watermark.  ``excess_deletes``: for each changelog, if the
    rows differ, the number of rows that were deleted more often than inserted.  ``runs``: each way run once more after
    the comparison, if that was requested and the columns agree.
    ``columns`` and ``differences``: the first rows that differ.  ``explanations``: what may explain them.
    ``seconds``: of the statement as written, and of its rewriting.  ``sample``: the part of a table that both read.
    ``stopped``: the reason why nothing was compared.
    """

    same: bool
    rows: int
    missing: int
    extra: int
    rewritten: bool
    schema: str | None = None
    late: int = 0
    excess_deletes: tuple[tuple[str, int], ...] = ()
    runs: MeasuredRuns | None = None
    columns: tuple[str, ...] = ()
    differences: tuple[RowDifference, ...] = ()
    explanations: tuple[str, ...] = ()
    seconds: tuple[float, float] | None = None
    sample: str = ""
    stopped: str = ""

    def __str__(self) -> str:
        """One line, and a line for each row that differs."""
        rows = [f"  {row.show(self.columns)}" for row in self.differences]
        return "\n".join(("; ".join(self._parts()), *(f"  {why}" for why in self.explanations), *rows))

    def _parts(self) -> list[str]:
        sample = [f"over a sample: {self.sample}"] if self.sample else []
        if self.runs:
            return [self._describe_rows(), *sample, str(self.runs)]
        seconds = [f"{self.seconds[0]:.2f} s as written, {self.seconds[1]:.2f} s rewritten"] if self.seconds else []
        return [self._describe_rows(), *sample, *seconds]

    def _describe_rows(self) -> str:
        if not self.rewritten:
            return "not rewritten: Spark runs the statement as written"
        if self.stopped:
            return f"not compared: {self.stopped}"
        if self.same:
            late = f", without {self.late:,} late ones" if self.late else ""
            return f"same: {plural(self.rows, 'row')} both ways{late}"
        if self.schema:
            return f"different: {self.schema}"
        deleted = "".join(
            f"; {plural(rows, 'row')} of {name} deleted more often than inserted" for name, rows in self.excess_deletes
        )
        missing, extra = plural(self.missing, "row"), plural(self.extra, "row")
        return f"different: {missing} missing, {extra} too many, of {self.rows:,}{deleted}"
