"""Optimizer: the one object a user holds."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from optimizer.checks import schema_difference
from optimizer.driver import Stage
from optimizer.options import Options
from optimizer.parameters import named
from optimizer.plan import Declined, Plan
from optimizer.planning import plan_sql
from optimizer.verify import Verification, verify
from planner.catalog import Key
from planner.errors import CatalogError, one_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("dovetail")


class Optimizer:
    """Plans SQL for a Spark session, classic or Connect, and lets Spark run it.

    >>> opt = Optimizer(spark)                                      # doctest: +SKIP
    >>> opt.sql("SELECT * FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi").show()   # doctest: +SKIP
    """

    def __init__(self, session: SparkSession, options: Options | None = None):
        self.session = session
        self.options = options or Options()
        self.keys: dict[tuple[str, ...], tuple[Key, ...]] = {}

    def sql(self, text: str, args: dict[str, Any] | list[Any] | None = None, **frames: Any) -> DataFrame:
        """Run a statement: drop-in for ``spark.sql``.

        ``args`` are named or positional parameters, ``frames`` DataFrames and values for ``{name}`` in the text, as in
        ``spark.sql``; a statement with ``frames`` goes to Spark as written.  Raises exactly what Spark raises.  What
        ``Plan.warnings`` holds goes to the logger ``dovetail``.
        """
        if frames:
            _say(Plan(text, None, ()))
            return self.session.sql(text, args=args, **frames) if args else self.session.sql(text, **frames)
        plan = self.plan(text, args)
        _say(plan)
        return plan.dataframe()

    def plan(self, text: str, args: dict[str, Any] | list[Any] | None = None, *, stop_after: Stage = "lower") -> Plan:
        """Plan a statement and look before it runs.

        Asks Spark for the tables it needs and for the analysed schema of a rewriting.  May run one aggregate over an
        interval side (``Options.measure_lengths``); never runs the statement.
        """
        from planner.runtime.catalog import SparkCatalog

        start = perf_counter()
        numbered, arguments = named(text, args)
        catalog = SparkCatalog(self.session, arguments, self.keys)
        plan = plan_sql(numbered, catalog, self.options, stop_after=stop_after)
        if plan.rewritten:
            plan = self._checked(plan, arguments)
        if not plan.rewritten:
            arguments = args
        timings = {**plan.timings, "catalog": catalog.seconds, "total": perf_counter() - start}
        return replace(plan, text=text, arguments=arguments, given=args, session=self.session, timings=timings)

    def _checked(self, plan: Plan, arguments: Any) -> Plan:
        """The plan if Spark's analysis gives both texts one schema; else one that runs the original."""
        from planner.runtime.batch import analysed

        assert plan.rewriting is not None
        head = plan.prefix
        before = analysed(self.session, plan.text[len(head) :].rstrip().rstrip(";"), arguments)
        after = analysed(self.session, plan.rewriting[len(head) :], arguments)
        if isinstance(before, str):
            return replace(plan, rewriting=None)  # Spark's own error comes when it runs
        if isinstance(after, str):
            reason: str | None = f"Spark does not take the rewriting: {after}"
        else:
            reason = schema_difference(before[1], after[1])
            if reason is None:
                return replace(plan, frame=None if head else after[0])
        declined = (*plan.declined, Declined("schema check", f"{reason}; the original runs"))
        return replace(plan, rewriting=None, declined=declined)

    def verify(self, text: str, args: dict[str, Any] | list[Any] | None = None) -> Verification:
        """Run a query as written and as rewritten, and compare the two multisets of rows inside Spark."""
        return verify(self.session, self.plan(text, args))

    def declare_key(self, table: str, columns: Iterable[str], *, enforced: bool = True) -> None:
        """Declare that no two rows of a table or view, as its name means it now, agree in ``columns``.

        Rows with a NULL in them may.  ``enforced``: whoever writes the table keeps it so; else the key is informational
        and counts only with ``Options(trust_informational_keys=True)``.  Raises ``CatalogError`` for a table or column
        that does not exist.
        """
        from planner.runtime.catalog import SparkCatalog
        from planner.runtime.keys import identity

        name = tuple(part.strip("`") for part in table.split("."))
        found = SparkCatalog(self.session).columns(name)
        meant = identity(self.session, name)
        if found is None or meant is None:
            tables = [t.name for t in self.session.catalog.listTables()]
            raise CatalogError(f"there is no table {table!r}; {one_of(tables, table)}")
        known = {c.name.lower(): c.name for c in found}
        wanted = tuple(columns)
        if not wanted:
            raise CatalogError(f"a key of {table} needs at least one column; possible: {', '.join(known.values())}")
        for column in wanted:
            if column.lower() not in known:
                raise CatalogError(f"{table} has no column {column!r}; {one_of(known.values(), column)}")
        key = Key(tuple(known[c.lower()] for c in wanted), enforced)
        self.keys[meant] = (*self.keys.get(meant, ()), key)


def _say(plan: Plan) -> None:
    for warning in plan.warnings:
        _LOG.warning("%s", warning)
