"""The result of a verification: whether both ways return the same rows, and what each took."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import plural
from planner.explain.measured import MeasuredRuns

_TIES = ". Both may be right, if rows tie under LIMIT, row_number() or NEAREST BY"


@dataclass(frozen=True)
class Verification:
    """The result: whether the rows are the ``same``, their number, and the rows (with multiplicity) of one side only.

    ``schema``: the difference of the columns; then no rows were compared.  ``late``: rows of streams that both sides
    dropped because they arrived behind the watermark.  ``excess_deletes``: for each changelog, if the
    rows differ, the number of rows that were deleted more often than inserted.  ``runs``: each way run once more after
    the comparison, if that was asked for and the columns agree.
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

    def __str__(self) -> str:
        return f"{self._describe_rows()}; {self.runs}" if self.runs else self._describe_rows()

    def _describe_rows(self) -> str:
        if not self.rewritten:
            return "not rewritten: Spark runs the statement as written"
        if self.same:
            late = f", without {self.late:,} late ones" if self.late else ""
            return f"same: {plural(self.rows, 'row')} both ways{late}"
        if self.schema:
            return f"different: {self.schema}"
        deleted = "".join(
            f"; {rows:,} rows of {name} are deleted more often than inserted" for name, rows in self.excess_deletes
        )
        tied = _TIES if self.missing == self.extra else ""
        return (
            f"different: {plural(self.missing, 'row')} missing, {plural(self.extra, 'row')} too many, of {self.rows:,}"
            f"{deleted}{tied}"
        )
