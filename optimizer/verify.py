"""Verify: both texts run, and Spark compares the two multisets of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Verification:
    """The outcome: ``same`` rows or not; how many; rows (with multiplicity) that only one side has."""

    same: bool
    rows: int
    missing: int
    extra: int
    rewritten: bool

    def __str__(self) -> str:
        if not self.rewritten:
            return "not rewritten: Spark runs the statement as written"
        if self.same:
            return f"same: {self.rows} rows both ways"
        return f"different: {self.missing} rows missing, {self.extra} rows too many, of {self.rows}"


def verify(session: SparkSession, plan: Plan) -> Verification:
    """Run the original and the rewriting of ``plan`` and compare; no row comes to the driver.

    A query that is not deterministic may differ from itself.  Raises what Spark raises.
    """
    from planner.runtime.batch import run
    from planner.runtime.compare import compare

    if not plan.rewritten:
        return Verification(True, 0, 0, 0, False)
    head = len(plan.prefix)  # of INSERT and the like only the query is compared: nothing is written
    original = run(session, plan.text[head:], plan.given)
    rows, missing, extra = compare(original, run(session, plan.sql()[head:], plan.arguments))
    return Verification(not missing and not extra, rows, missing, extra, True)
