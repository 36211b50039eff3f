"""Golden cases on a Spark Connect server that refuses what serverless offers refuse, compared with a classic session.

``python tests/serverless/serverless_main.py [FOLDER …]``: the cases of all folders of golden_plans/cases, or of these.
Prints where plans or rows differ and which first plans take more than 10 requests, and a row of a table for each
folder; exit code 1 where something differs.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connect_goldens_main import CASES, Planner, classic, difference, other_rows, rows
from dovetail import Optimizer, Options
from dovetail.executor.catalog import repeatable
from dovetail.executor.session import sail
from dovetail.executor.session.requests import query_frame
from dovetail.golden_plans.case import Case, read_case
from dovetail.optimizer.planning.plan import Plan
from dovetail.planner.errors import DovetailError
from golden.test_connect import DIFFERENT
from golden_sessions import golden_sessions
from proxy import Proxy
from sessions import start

MOST_REQUESTS = 10
SERVER = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "2g",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
}
FOLDERS = tuple(sorted(path.name for path in CASES.iterdir() if path.is_dir()))


def main(folders: list[str]) -> int:
    """Plan and run the cases."""
    with tempfile.TemporaryDirectory() as scratch:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        local = start("classic", Path(scratch), **SERVER, **{"spark.connect.grpc.binding.port": str(port)})
        proxy = Proxy(port)
        bound = SparkSession.builder.remote(f"sc://127.0.0.1:{proxy.port}").create()
        wrong = 0
        for what, refused in refusals(bound):
            print(f"{what}: {'refused' if refused else 'NOT REFUSED'}", flush=True)
            wrong += not refused
        problem = long_rewriting(bound, proxy)
        print(f"a rewriting that is too long: {problem or 'the statement runs as written'}", flush=True)
        wrong += bool(problem)
        get_local, get_bound = (next(golden_sessions(session)) for session in (local, bound))
        for folder in folders or FOLDERS:
            seen = Seen(proxy)
            for path in sorted((CASES / folder).rglob("*.plan")):
                seen.add(read_case(path), Planner(get_local), Planner(get_bound))
            print(f"| `{folder}` | {seen.row()} |", flush=True)
            wrong += seen.wrong
        print(f"largest request: {proxy.largest:,} bytes")
        proxy.stop()
        return int(wrong > 0)


def refusals(session: Any) -> Iterator[tuple[str, bool]]:
    """What such a server refuses, each tried once."""
    tries: dict[str, Callable[[], object]] = {
        "SET": lambda: session.sql("SET spark.sql.adaptive.enabled=false"),
        "conf.set": lambda: session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1"),
        "conf.get": lambda: session.conf.get("spark.dovetail.enabled", "true"),
        "cache": lambda: session.range(3).cache(),
        "CACHE TABLE": lambda: session.sql("CACHE TABLE t AS SELECT 1"),
        "checkpoint": lambda: session.range(3).localCheckpoint(),
        "a global view": lambda: session.range(3).createGlobalTempView("g"),
        "a long plan": lambda: session.sql("SELECT 1 AS n" + ", 'x'" * 60_000).collect(),
        "the JVM": lambda: session.sparkContext,
        "an RDD": lambda: session.range(3).rdd,
    }
    for what, run in tries.items():
        try:
            run()
        except PySparkException:
            yield what, True
        else:
            yield what, False


def long_rewriting(session: Any, proxy: Proxy) -> str:
    """What is wrong where a server takes a statement, and refuses its rewriting, which is longer."""
    text = (
        "SELECT p.id FROM (SELECT id, id * 3 AS x FROM range(9)) p "
        "JOIN (SELECT id AS lo, id + 2 AS hi FROM range(9)) i ON p.x BETWEEN i.lo AND i.hi"
    )
    optimizer = Optimizer(session, Options(force=True, measure_lengths=False, planning_seconds=600))
    _ = session.version
    proxy.largest = 0
    _ = query_frame(session, text).schema
    with proxy.at_most(proxy.largest + 50):
        plan = optimizer.plan(text)
    reasons = [one.reason for one in plan.declined]
    if plan.rewritten or not any("gRPC message exceeds maximum size" in reason for reason in reasons):
        return f"rewritten: {plan.rewritten}, declined: {reasons}"
    return "" if rows(plan.run()) == rows(session.sql(text)) else "other rows"


def forget(session: Any) -> None:
    """Let each plan be the first of its session: remove what planning keeps of a session."""
    session.__dict__.pop("version", None)
    sail._found.pop(session, None)
    repeatable._refusing.pop(session, None)


class Seen:
    """What came of the cases of a folder."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.cases = self.rewritten = self.wrong = 0
        self.requests: Counter[int] = Counter()  # the number of first plans by that of their requests

    def add(self, case: Case, local: Planner, bound: Planner) -> None:
        """Plan a case on both, with an optimizer that knows nothing yet, and compare the rows with plain Spark's."""
        self.cases += 1
        with classic():
            there = local.plan(case)
        proxy = self.proxy
        with proxy.lenient():  # makes the tables, and declares their keys
            session = bound.optimizer(case).session
        forget(session)
        before, refused = proxy.requests.copy(), proxy.refused.copy()
        here = bound.plan(case)
        requests, found = proxy.requests - before, difference(there, here)
        problems = [found] if found and DIFFERENT.get(case.name, "\n") not in found else []
        if isinstance(here, Plan) and here.rewritten:
            self.rewritten += 1
            self.requests[requests.total()] += 1
            if requests.total() > MOST_REQUESTS:
                kinds = ", ".join(f"{number} {kind}" for kind, number in requests.most_common())
                print(f"{case.name}: {requests.total()} requests: {kinds}", flush=True)
            try:
                problems.append(other_rows(session, case, here, there))
            except (DovetailError, PySparkException) as error:
                problems.append(str(error).strip().splitlines()[0])
        problems += [f"refused: {what}" for what in proxy.refused - refused]
        self.wrong += any(problems)
        for problem in filter(None, problems):
            print(f"{case.name}: {problem}", flush=True)

    def row(self) -> str:
        """The cells of a table."""
        spread = ", ".join(f"{count} × {number}" for number, count in sorted(self.requests.items()))
        return f"{self.cases} | {self.rewritten} | {self.wrong} | {spread}"


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
