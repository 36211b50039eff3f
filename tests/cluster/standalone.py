"""Spark's standalone cluster on this machine, from the jars of PySpark: a master and two workers, each a process.

The drivers of the tests are processes elsewhere, as they are for a cluster of machines (client mode).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from sessions import start
from waiting import until

SPARK_HOME = Path(pyspark.__file__).parent
WORKERS = 2


class Cluster:
    """A master, and workers of one core that start one executor each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.master = f"spark://127.0.0.1:{self.port}"
        self._processes = [self._start("master.Master", "--port", str(self.port))]
        assert until(self._listens), f"The master does not listen: see {folder}/master.Master-0.log"
        self.workers = [self._worker() for _ in range(WORKERS)]

    def add_worker(self) -> None:
        """Start one more worker."""
        self.workers.append(self._worker())

    def kill_worker(self) -> None:
        """Kill the oldest worker and its executor, as a machine that loses its power."""
        worker = self.workers.pop(0)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def stop(self) -> None:
        """Kill what is left."""
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _worker(self) -> subprocess.Popen[bytes]:
        number = len(self._processes)
        words = ("-c", "1", "-m", "1g", "-d", str(self.folder / f"worker{number}"), self.master)
        self._processes.append(self._start("worker.Worker", *words))
        return self._processes[-1]

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a process that heads a group of its own; its Python knows nothing that this one can import."""
        number = len(getattr(self, "_processes", ()))
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK"))}
        environment |= {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_SCALA_VERSION": next((SPARK_HOME / "jars").glob("spark-core_*")).name.split("_")[1].split("-")[0],
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / f"local{number}"),
        }
        java = shutil.which("java", path=os.pathsep.join([f"{os.environ.get('JAVA_HOME')}/bin", os.environ["PATH"]]))
        command = [java or "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{SPARK_HOME}/jars/*"]
        command += [f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0", *words]
        with (self.folder / f"{name}-{number}.log").open("wb") as log:
            return subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def cluster_session(folder: Path, python: str, **settings: str) -> Iterator[tuple[Cluster, SparkSession]]:
    """Start a cluster whose executors run a Python of their own, and a session on it."""
    cluster = Cluster(folder / "cluster")
    try:
        session = start(
            "classic",
            folder,
            **{
                "spark.master": cluster.master,
                "spark.driver.host": "127.0.0.1",
                "spark.executor.memory": "640m",
                "spark.executor.cores": "1",
                "spark.pyspark.python": python,
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
                "spark.sql.adaptive.coalescePartitions.enabled": "false",  # or few rows are one task
                "spark.sql.shuffle.partitions": "4",
                **settings,
            },
        )
        assert until(lambda: len(executors(session)) == WORKERS), f"no {WORKERS} executors: see {folder}"
        yield cluster, session
        session.stop()
    finally:
        cluster.stop()


def executors(session: SparkSession) -> dict[str, int]:
    """The executors that are alive, each with the number of tasks that it ended."""
    context: Any = session.sparkContext._jsc
    found = context.sc().statusStore().executorList(True)
    listed = [found.apply(n) for n in range(found.size())]
    return {each.id(): each.completedTasks() for each in listed if each.id() != "driver"}
