"""Golden cases on Spark Connect and on a classic session of the same server, as JSON.

``python connect_goldens_main.py SCRATCH SHARE/SHARES [CASE …]`` plans a share of the cases, chosen by a hash of their
names, or the named ones, over the tables of their catalogs.  It prints how a case differs, and runs each rewriting next
to the statement as written.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

from pyspark.errors import PySparkException

from dovetail import Optimizer
from dovetail.executor.connectors.memory import MemorySource
from dovetail.executor.lookup.views import run_with_lookups
from dovetail.golden_plans.case import Case, read_case
from dovetail.golden_plans.planned import catalog_of, options_of
from dovetail.optimizer.planning.plan import Plan
from dovetail.planner.errors import DovetailError
from dovetail.planner.expr import quote
from dovetail.planner.offline_catalog.catalog import CatalogFile
from dovetail.planner.sql.lookup_views import lookups_of
from dovetail.planner.sql.lookup_views import query_of as query_of_plan
from execution import INTERPRETED
from golden_sessions import ARGUMENTS, golden_sessions, plain_lookups, with_plain_lookups
from sessions import start

CASES = Path(__file__).parents[1] / "golden_plans" / "cases"
_REMOTE = "SPARK_CONNECT_MODE_ENABLED"  # by this variable PySpark's functions belong to one kind of session


@contextmanager
def classic() -> Iterator[None]:
    """Let PySpark's functions belong to classic sessions."""
    remote = os.environ.pop(_REMOTE)
    try:
        yield
    finally:
        os.environ[_REMOTE] = remote


class Planner:
    """Plans cases on sessions of one kind; an optimizer for each catalog and options."""

    def __init__(self, session_for: Any) -> None:
        self.session_for = session_for
        self._optimizers: dict[Any, Optimizer] = {}

    def session(self, case: Case) -> Any:
        """The session of a case."""
        return self.session_for(case, INTERPRETED)

    def plan(self, case: Case) -> Plan | str:
        """Plan a case, whatever it costs; an error as a text."""
        try:
            return self.optimizer(case).plan(case.sql, ARGUMENTS.get(case.name))
        except (DovetailError, PySparkException) as error:
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"

    def optimizer(self, case: Case) -> Optimizer:
        catalog, options = catalog_of(case), replace(options_of(case), force=True, planning_seconds=600)
        key = (catalog.path, options)
        if key not in self._optimizers:
            self._optimizers[key] = optimizer = Optimizer(self.session(case), options)
            declare(optimizer, catalog)
        return self._optimizers[key]


def declare(optimizer: Optimizer, catalog: CatalogFile) -> None:
    """Declare to an optimizer what a catalog file declares of its tables."""
    for table in catalog.tables:
        for key in table.keys:
            optimizer.declare_key(".".join(map(quote, table.name)), key.columns, enforced=key.enforced)
    for table, query in zip(catalog.lookups, plain_lookups(catalog).values(), strict=True):
        lookup = catalog.declaration(table.name).lookup
        assert lookup is not None
        rows = optimizer.session.sql(query).toArrow()
        source = MemorySource(rows, lookup.unique_keys, lookup.fetch_keys)
        optimizer.register_lookup(".".join(map(quote, table.name)), source)
    for name, declared in catalog.declarations:
        text = ".".join(map(quote, name))
        if declared.versions:
            optimizer.declare_versions(text, declared.versions.key, declared.versions.valid_from)
        if change := declared.changelog:
            optimizer.declare_changelog(text, change.change, change.key, insert_only=change.insert_only)


def difference(classic: Plan | str, connect: Plan | str) -> str:
    """How the plan on Connect differs from the classic one; empty if it does not."""
    if isinstance(classic, str) or isinstance(connect, str):
        return "" if classic == connect else f"classic: {_outcome(classic)}; Connect: {_outcome(connect)}"
    if classic.sql() == connect.sql() and classic.rules == connect.rules:
        return ""
    reasons = [d.reason for d in connect.declined if d.reason not in {c.reason for c in classic.declined}]
    if reasons:
        return "; ".join(dict.fromkeys(reasons))
    if classic.rules != connect.rules:
        return f"classic: {', '.join(classic.rules)}; Connect: {', '.join(connect.rules)}"
    return "another statement"


def _outcome(plan: Plan | str) -> str:
    return plan if isinstance(plan, str) else "rewritten" if plan.rewritten else "as written"


def other_rows(session: Any, case: Case, plan: Plan, there: Plan | str) -> str:
    """How the rows of a rewriting differ from those of the statement as written; empty if they are the same.

    A statement that Spark does not take is compared with its rewriting on the classic session, and one that raises an
    error, on rows which the rewriting may not read, with nothing.
    """
    if not plan.statement:
        after = plan.run()
    elif lookups_of(plan.physical) and plan.physical:
        after = run_with_lookups(session, query_of_plan(plan.physical), plan.lookups, plan.arguments)
    else:
        after = session.sql(plan.rewritten_query, args=plan.arguments)
    try:
        if lookups_of(plan.physical):
            before = session.sql(with_plain_lookups(catalog_of(case), plan), args=ARGUMENTS.get(case.name))
        else:
            before = session.sql(plan.query, args=ARGUMENTS.get(case.name))
        schema = before.schema
    except PySparkException:
        assert isinstance(there, Plan)
        with classic():
            before = there.run()
            schema, wanted = before.schema, rows(before)
    else:
        try:
            wanted = rows(before)
        except PySparkException:
            return ""
    if schema != after.schema:
        return f"{after.schema} in the place of {schema}"
    found = rows(after)
    return "" if wanted == found else f"{found - wanted} in the place of {wanted - found}"


def rows(frame: Any) -> Counter[str]:
    """The rows of a DataFrame, as texts."""
    return Counter(map(repr, frame.collect()))


def main(scratch: Path, share: int, shares: int, names: list[str]) -> dict[str, Any]:
    """Compare the cases."""
    remote = start("connect", scratch)
    from pyspark.sql import SparkSession

    local = SparkSession._instantiatedSession
    planners = [Planner(next(golden_sessions(session))) for session in (local, remote)]
    seen: dict[str, Any] = {"cases": 0, "rewritten": 0, "different": {}, "wrong": {}}
    for path in sorted(CASES.rglob("*.plan")):
        case = read_case(path)
        if case.name not in names if names else crc32(case.name.encode()) % shares != share:
            continue
        seen["cases"] += 1
        with classic():
            there = planners[0].plan(case)
        here = planners[1].plan(case)
        if found := difference(there, here):
            seen["different"][case.name] = found
        if isinstance(here, Plan) and here.rewritten:
            seen["rewritten"] += 1
            try:
                if found := other_rows(planners[1].session(case), case, here, there):
                    seen["wrong"][case.name] = found
            except (DovetailError, PySparkException) as error:
                seen["wrong"][case.name] = str(error).strip().splitlines()[0]
        print(case.name, seen["different"].get(case.name, ""), seen["wrong"].get(case.name, ""), file=sys.stderr)
        if names:
            show = [p if isinstance(p, str) else p.explain("trace") + "\n" + p.sql() for p in (there, here)]
            print("\n".join([f"-- {case.name}", "-- classic", show[0], "-- connect", show[1]]), file=sys.stderr)
    return seen


if __name__ == "__main__":
    number, count = map(int, sys.argv[2].split("/"))
    print(json.dumps(main(Path(sys.argv[1]), number, count, sys.argv[3:]), indent=1), flush=True)
    os._exit(0)  # the server ends with its process; each session that says goodbye to it afterwards waits for an answer
