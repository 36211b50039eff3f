"""Golden cases on a Spark Connect server that refuses what serverless offers refuse, compared with the free server.

``python tests/serverless/serverless_main.py [FOLDER …]``: cases of these folders of golden_plans/cases.  Prints where
plans or rows differ, and how many requests a first plan takes; exit code 1 where something differs.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connect_goldens_main import CASES, Planner, difference, rows
from dovetail.golden_plans.case import Case, read_case
from dovetail.golden_plans.planned import catalog_of
from dovetail.optimizer.plan import Plan
from golden_sessions import ARGUMENTS, golden_sessions
from proxy import Proxy
from waiting import until

FOLDERS = ("band", "distances", "overlap", "aggregate", "nearest", "extreme", "keys", "self", "groups", "kinds")
HOME = Path(pyspark.__file__).parent
SETTINGS = {
    "spark.master": "local[1]",
    "spark.driver.memory": "2g",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@contextmanager
def server(folder: Path) -> Iterator[int]:
    """Start a server as a process of its own; yield its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = SETTINGS | {
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    command = [str(HOME / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    environment = os.environ | {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "spark-internal"], env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    try:

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        assert until(listens, 600), (folder / "server.log").read_text()[-2000:]
        yield port
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main(folders: list[str]) -> int:
    """Plan and run the cases."""
    with tempfile.TemporaryDirectory() as name, server(Path(name)) as port:
        proxy = Proxy(port)
        builder: Any = SparkSession.builder
        free, bound = (builder.remote(f"sc://127.0.0.1:{p}").create() for p in (port, proxy.port))
        seen = Seen()
        for what, refused in refusals(bound):
            print(f"{what}: {'refused' if refused else 'NOT REFUSED'}", flush=True)
            seen.wrong += not refused
        get_free, get_bound = (next(golden_sessions(session)) for session in (free, bound))
        for case in cases(folders or list(FOLDERS)):
            seen.add(case, Planner(get_free), Planner(get_bound), proxy)
        print(seen.text(proxy))
        proxy.stop()
        return int(seen.wrong > 0)


def cases(folders: list[str]) -> Iterator[Case]:
    """The cases of some folders that need no lookup and no stream."""
    for folder in folders:
        for path in sorted((CASES / folder).rglob("*.plan")):
            case = read_case(path)
            if not catalog_of(case).lookups:
                yield case


def refusals(session: Any) -> Iterator[tuple[str, bool]]:
    """What such a server refuses, each tried once."""
    tries: dict[str, Callable[[], object]] = {
        "SET": lambda: session.sql("SET spark.sql.adaptive.enabled=false"),
        "conf.set": lambda: session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1"),
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


class Seen:
    """What came of the cases."""

    def __init__(self) -> None:
        self.cases = self.rewritten = self.compared = self.wrong = 0
        self.requests: list[int] = []

    def add(self, case: Case, free: Planner, bound: Planner, proxy: Proxy) -> None:
        """Plan a case on both, with an optimizer that knows nothing yet, and compare the rows with plain Spark's."""
        self.cases += 1
        there = free.plan(case)
        with proxy.lenient():  # makes the tables, and declares their keys
            session = bound._optimizer(case).session
        before, refused = proxy.requests, proxy.refused.total()
        here = bound.plan(case)
        requests = proxy.requests - before
        problems = [text for text in (difference(there, here), _refused(proxy, refused)) if text]
        if isinstance(here, Plan) and here.rewritten:
            self.rewritten += 1
            self.requests.append(requests)
            if found := self._other_rows(session, case, here):
                problems.append(found)
        self.wrong += bool(problems)
        for problem in problems:
            print(f"{case.name}: {problem}", flush=True)

    def _other_rows(self, session: Any, case: Case, plan: Plan) -> str:
        try:
            wanted = rows(session.sql(plan.query, args=ARGUMENTS.get(case.name)))
        except PySparkException:
            return ""  # what plain Spark does not run
        try:
            found = rows(plan.run())
        except PySparkException as error:
            return str(error).splitlines()[0]
        self.compared += 1
        return "" if found == wanted else f"{found - wanted} in the place of {wanted - found}"

    def text(self, proxy: Proxy) -> str:
        """All in a few lines."""
        counts = Counter(self.requests)
        spread = ", ".join(f"{number}: {counts[number]}" for number in sorted(counts))
        return (
            f"{self.cases} cases, {self.rewritten} rewritten, {self.compared} with rows compared, {self.wrong} wrong\n"
            f"requests of a first plan, and how many plans: {spread}\nlargest request: {proxy.largest:,} bytes"
        )


def _refused(proxy: Proxy, before: int) -> str:
    return f"refused: {dict(proxy.refused)}" if proxy.refused.total() > before else ""


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
