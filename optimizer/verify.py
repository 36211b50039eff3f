"""Verify: both texts run, and Spark compares the two multisets of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.checks import schema_difference
from optimizer.lookups import speaks_of_time
from optimizer.plan import Plan
from planner.catalog.declared import LookupTable
from planner.errors import QueryError
from planner.expr import quote
from planner.logical import Scan
from planner.physical.hole import Hole
from planner.sql.lookup_views import lookups_of, query_of, with_tables
from planner.sql.reader import not_a_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Verification:
    """The outcome: ``same`` rows or not; how many; rows (with multiplicity) that only one side has.

    ``schema``: in what the columns differ; then no row has been compared.  ``late``: rows of streams that were left out
    both ways, since they came behind the watermark.  ``owed``: where changelogs differ, how many rows of each have been
    deleted more often than inserted.
    """

    same: bool
    rows: int
    missing: int
    extra: int
    rewritten: bool
    schema: str | None = None
    late: int = 0
    owed: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        if not self.rewritten:
            return "not rewritten: Spark runs the statement as written"
        if self.same:
            return f"same: {self.rows} rows both ways" + (f", without {self.late} late ones" if self.late else "")
        if self.schema:
            return f"different: {self.schema}"
        owed = "".join(f"; {rows} rows of {name} are deleted more often than inserted" for name, rows in self.owed)
        return f"different: {self.missing} rows missing, {self.extra} rows too many, of {self.rows}{owed}"


def verify(session: SparkSession, plan: Plan) -> Verification:
    """Run the original and the rewriting of ``plan`` and compare columns and values; no row comes to the driver.

    A query that is not rewritten is analysed, and does not run.

    A query that is not deterministic may differ from itself.  Raises what Spark raises.
    """
    from planner.runtime.batch import run

    if not plan.rewritten:
        if not not_a_query(plan.text) and not speaks_of_time(plan):
            _ = run(session, plan.text, plan.given).schema  # Spark analyses it, and raises what it raises
        return Verification(True, 0, 0, 0, False)
    if speaks_of_time(plan):
        return _verify_lookups(session, plan)
    head = len(plan.prefix)  # of INSERT and the like only the query is compared: nothing is written
    return _compared(run(session, plan.text[head:], plan.given), run(session, plan.sql()[head:], plan.arguments))


def _compared(original: DataFrame, rewriting: DataFrame) -> Verification:
    from planner.runtime.compare import compare

    if difference := schema_difference(original.schema, rewriting.schema):
        return Verification(False, 0, 0, 0, True, difference)
    rows, missing, extra = compare(original, rewriting)
    return Verification(not missing and not extra, rows, missing, extra, True)


def _verify_lookups(session: SparkSession, plan: Plan) -> Verification:
    """Compare with the same joins over the whole tables, where those can be read whole.

    Raises ``QueryError`` where they cannot, and for tables with versions: Spark has no plan to compare with.
    """
    from planner.runtime.batch import run
    from planner.runtime.lookup.views import run_with_lookups, whole_tables

    assert plan.logical is not None
    assert plan.physical is not None
    joins = lookups_of(plan.physical)
    names = {j.spec.table for j in joins}
    if unread := sorted(n for n in names if not plan.sources[n].can_scan_share):
        raise QueryError(f"{unread[0]} cannot be read whole, and so there is nothing to compare with")
    if any(n.required and not isinstance(n, Hole) for n in plan.physical.walk()):
        raise QueryError("Spark cannot join with versions as written, and so there is nothing to compare with")
    with whole_tables(session, {n: plan.sources[n] for n in names}) as tables:

        def lookup(scan: Scan) -> LookupTable | None:
            name = ".".join(map(quote, scan.name)).lower()
            found = next((n for n in names if n.lower() == name), None)
            return LookupTable(found, ()) if found and scan.as_of else None

        original = run(session, with_tables(plan.logical, tables, lookup), plan.arguments)
        looked_up = run_with_lookups(session, query_of(plan.physical), plan.sources, plan.arguments, plan.fetched)
        return _compared(original, looked_up)
